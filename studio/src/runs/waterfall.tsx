/** The nodes, model calls and tool calls of a run as bars over time. */
import { useState } from "react";

import { duration } from "../ui";
import { SpanDetails, SpanTime, useNow } from "./span";
import type { Span, Timeline } from "./timeline";

export function Waterfall({ timeline }: { timeline: Timeline }) {
  const [selected, setSelected] = useState<string>();
  const from = Math.min(timeline.start ?? Infinity, ...timeline.spans.map((span) => span.waitingSince ?? span.start));
  const last = Math.max(timeline.end ?? 0, ...timeline.spans.map((span) => span.end ?? span.start));
  const now = useNow(timeline.end === undefined);
  const length = Math.max(1, (timeline.end === undefined ? Math.max(last, now) : last) - from);
  const percent = (time: number) => (100 * (time - from)) / length;
  return (
    <div className="waterfall">
      <div className="waterfall-scale hint" aria-hidden="true">
        <span>0</span><span>{duration(length / 2)}</span><span>{duration(length)}</span>
      </div>
      <ol className="list">
        {timeline.spans.map((span) => (
          <li key={span.id}>
            <button type="button" className="waterfall-row" aria-expanded={selected === span.id}
              onClick={() => setSelected(selected === span.id ? undefined : span.id)} data-kind={span.kind}>
              <span className="waterfall-name" style={{ paddingLeft: Math.min(span.depth, 6) * 12 }}>
                <span className={`waterfall-kind ${span.kind}`}>{span.kind}</span>
                <span className="cut" title={span.name}>{span.name}</span>
                {span.tokens !== undefined && <span className="hint">{span.tokens} tokens</span>}
              </span>
              <span className="waterfall-track"><Bar span={span} percent={percent} /></span>
              <span className="waterfall-time"><SpanTime span={span} /></span>
            </button>
            {selected === span.id && <SpanDetails span={span} />}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Bar({ span, percent }: { span: Span; percent: (time: number) => number }) {
  const left = percent(span.start);
  const right = span.end === undefined ? 100 : percent(span.end);
  return (
    <>
      {span.waitingSince !== undefined && (
        <span className="waterfall-wait" title={`First token after ${duration(span.start - span.waitingSince)} at most`}
          style={{ left: `${percent(span.waitingSince)}%`, width: `${left - percent(span.waitingSince)}%` }} />
      )}
      <span className={`waterfall-bar ${span.kind} ${span.status}`} style={{ left: `${left}%`, width: `${right - left}%` }} />
      {span.status === "error" && <span className="waterfall-mark"
        style={left > 50 ? { right: `${100 - left}%` } : { left: `${right}%` }}>failed</span>}
    </>
  );
}
