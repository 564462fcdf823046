import { useEffect, useRef, useState } from "react";

import type { Span } from "../runs/timeline";
import { Badge } from "../ui/badge";
import { JsonView } from "../ui/json";
import { duration } from "../ui/time";
import type { NodeRun } from "./canvas";
import { type Drawing, groupsOf } from "./layout";

interface NodeListProps {
  drawing: Drawing;
  runs: Map<string, NodeRun>;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

/** The nodes of the drawing as buttons, with their subgraphs before them; the selected one shows its last execution. */
export function NodeList({ drawing, runs, selected, onSelect }: NodeListProps) {
  const ids = drawing.nodes.map((node) => node.id).filter((id) => id !== "__start__" && id !== "__end__");
  const all = [...new Set(ids.flatMap((id) => [...groupsOf(id), id]))];
  return (
    <section className="stack" aria-label="Nodes">
      <h2>Nodes</h2>
      <ul className="list graph-nodes">
        {all.map((id) => <NodeItem key={id} id={id} run={runs.get(id)} isOpen={selected === id} onSelect={onSelect} />)}
      </ul>
    </section>
  );
}

interface NodeItemProps {
  id: string;
  run: NodeRun | undefined;
  isOpen: boolean;
  onSelect: (id: string) => void;
}

function NodeItem({ id, run, isOpen, onSelect }: NodeItemProps) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isOpen) item.current?.scrollIntoView({ block: "nearest" });
  }, [isOpen]);
  return (
    <li ref={item}>
      <button type="button" aria-expanded={isOpen} aria-current={isOpen ? "true" : undefined} onClick={() => onSelect(id)}>
        <span className="cut" title={id}>{id.replaceAll(":", " › ")}</span>
        <NodeState run={run} />
      </button>
      {isOpen && (run ? <SpanDetails span={run.last} count={run.count} /> :
        <p className="hint graph-details">It has not run. Start a run above, or choose a thread.</p>)}
    </li>
  );
}

function NodeState({ run }: { run: NodeRun | undefined }) {
  if (run === undefined) return null;
  return <span className="row">{run.last.end !== undefined && <SpanTime span={run.last} />}<Badge status={run.last.status} /></span>;
}

/** How long a span took, or has been running. */
export function SpanTime({ span }: { span: Span }) {
  const [now, setNow] = useState(() => Date.now());
  const isOpen = span.end === undefined;
  useEffect(() => {
    if (!isOpen) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [isOpen]);
  return <span className="hint">{duration(Math.max(0, (span.end ?? now) - span.start))}</span>;
}

/** What went into a node or a call, and what came out. */
export function SpanDetails({ span, count = 1 }: { span: Span; count?: number }) {
  return (
    <section className="stack graph-details" aria-label={`Details of ${span.name}`}>
      {count > 1 && <p className="hint">It ran {count} times; this is the last time.</p>}
      {span.error !== undefined && <p className="error-box">{span.error}</p>}
      {span.input !== undefined && <><h3>Input</h3><JsonView value={span.input} label="Input" /></>}
      {span.output !== undefined && <><h3>Output</h3><JsonView value={span.output} label="Output" /></>}
    </section>
  );
}
