/** A list that follows its end while it grows, until its reader scrolls up. */
import { useEffect, useRef, useState } from "react";

import { Button } from "../ui";

const NEAR_END = 24;

interface ScrollAreaProps {
  label: string;
  /** A change brings the end into view, for example after a message was sent. */
  resetKey: unknown;
  children: React.ReactNode;
}

export function ScrollArea({ label, resetKey, children }: ScrollAreaProps) {
  const area = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isAway, setAway] = useState(false);
  useEffect(() => {
    const element = area.current;
    if (!element || !content.current) return;
    let top = element.scrollTop;
    const follow = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    const observe = () => {
      const distance = element.scrollHeight - element.scrollTop - element.clientHeight;
      if (distance < NEAR_END) follows.current = true;
      else if (element.scrollTop < top) follows.current = false;
      top = element.scrollTop;
      setAway(!follows.current);
    };
    follow.observe(content.current);
    follow.observe(element);
    element.addEventListener("scroll", observe, { passive: true });
    return () => {
      follow.disconnect();
      element.removeEventListener("scroll", observe);
    };
  }, []);
  const toEnd = () => area.current?.scrollTo({ top: area.current.scrollHeight });
  useEffect(() => {
    follows.current = true;
    toEnd();
  }, [resetKey]);
  return (
    <div className="scroll-frame">
      <div ref={area} className="scroll-area" tabIndex={0} role="region" aria-label={label}>
        <div ref={content} className="transcript">{children}</div>
      </div>
      {isAway && <Button className="to-end" onClick={toEnd}>Jump to the end</Button>}
    </div>
  );
}
