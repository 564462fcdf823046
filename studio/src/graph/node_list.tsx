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

function scrollIntoView(element: HTMLElement | null) {
  element?.scrollIntoView({ block: "nearest" });
}

/** The nodes of the drawing as buttons, with their subgraphs before them; the selected one shows its last execution. */
export function NodeList({ drawing, runs, selected, onSelect }: NodeListProps) {
  return (
    <section className="stack" aria-label="Nodes">
      <h2>Nodes</h2>
      <ul className="list graph-nodes">
        {reachableOrder(drawing).map((id) => {
          const run = runs.get(id);
          const isOpen = selected === id;
          return (
            <li key={id} ref={isOpen ? scrollIntoView : null}>
              <button type="button" aria-expanded={isOpen} aria-current={isOpen} onClick={() => onSelect(id)}>
                <span className="cut" title={id}>{id.replaceAll(":", " › ")}</span>
                {run && (
                  <span className="row">
                    {run.last.end !== undefined && <SpanTime span={run.last} />}<Badge status={run.last.status} />
                  </span>
                )}
              </button>
              {isOpen && run && <SpanDetails span={run.last} count={run.count} />}
              {isOpen && !run && <p className="hint span-details">It has not run. Start a run above, or choose a thread.</p>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
