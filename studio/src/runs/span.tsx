/** How long a node or a call took, what went into it, and what came out. */
import { useEffect, useState } from "react";

import { duration, JsonSection } from "../ui";
import type { Span } from "./timeline";

/** The time, four times a second while something runs. */
export function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}

export function SpanTime({ span }: { span: Span }) {
  const now = useNow(span.end === undefined);
  return <span className="hint">{duration(Math.max(0, (span.end ?? now) - span.start))}</span>;
}

export function SpanDetails({ span, count = 1 }: { span: Span; count?: number }) {
  return (
    <section className="stack span-details" aria-label={`Details of ${span.name}`}>
      {count > 1 && <p className="hint">It ran {count} times; this is the last time.</p>}
      {span.error !== undefined && <p className="error-box">{span.error}</p>}
      {span.input !== undefined && <JsonSection label="Input" value={span.input} />}
      {span.output !== undefined && <JsonSection label="Output" value={span.output} />}
    </section>
  );
}
