import { JsonView } from "../ui/json";
import { duration } from "../ui/time";
import "./span_details.css";
import type { Span } from "./timeline";
import { useNow } from "./use_now";

/** How long a span took, or has been running. */
export function SpanTime({ span }: { span: Span }) {
  const now = useNow(span.end === undefined);
  return <span className="hint">{duration(Math.max(0, (span.end ?? now) - span.start))}</span>;
}

/** What went into a node or a call, and what came out. */
export function SpanDetails({ span, count = 1 }: { span: Span; count?: number }) {
  return (
    <section className="stack span-details" aria-label={`Details of ${span.name}`}>
      {count > 1 && <p className="hint">It ran {count} times; this is the last time.</p>}
      {span.error !== undefined && <p className="error-box">{span.error}</p>}
      {span.input !== undefined && <><h3>Input</h3><JsonView value={span.input} label="Input" /></>}
      {span.output !== undefined && <><h3>Output</h3><JsonView value={span.output} label="Output" /></>}
    </section>
  );
}
