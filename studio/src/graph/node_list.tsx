import { useEffect, useRef } from "react";

import { SpanDetails, SpanTime } from "../runs/span";
import { Badge } from "../ui";
import type { NodeRun } from "./canvas";
import { type Drawing, reachableOrder } from "./layout";

interface NodeListProps {
  drawing: Drawing;
  runs: Map<string, NodeRun>;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

/** The nodes of the drawing as buttons, with their subgraphs before them; the selected one shows its last execution. */
export function NodeList({ drawing, runs, selected, onSelect }: NodeListProps) {
  return (
    <section className="stack" aria-label="Nodes">
      <h2>Nodes</h2>
      <ul className="list graph-nodes">
        {reachableOrder(drawing).map((id) => <NodeItem key={id} id={id} run={runs.get(id)} isOpen={selected === id} onSelect={onSelect} />)}
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
        <p className="hint span-details">It has not run. Start a run above, or choose a thread.</p>)}
    </li>
  );
}

function NodeState({ run }: { run: NodeRun | undefined }) {
  if (run === undefined) return null;
  return <span className="row">{run.last.end !== undefined && <SpanTime span={run.last} />}<Badge status={run.last.status} /></span>;
}
