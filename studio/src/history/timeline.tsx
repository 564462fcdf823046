/** The checkpoints of a thread, newest first, with their branches. */
import type { ThreadState } from "@langchain/langgraph-sdk";

import { Ago, shortId } from "../ui";
import { lanesOf, type Row } from "./lanes";

export function idOf(state: ThreadState): string {
  return state.checkpoint.checkpoint_id ?? "";
}

interface StateMetadata {
  source?: string;
  step?: number;
  run_id?: string;
  assistant_id?: string;
}

export function metadataOf(state: ThreadState): StateMetadata {
  return state.metadata ?? {};
}

/** "Step 3 (loop)": how a checkpoint is named in lists. */
export function nameOf(state: ThreadState): string {
  const { step, source } = metadataOf(state);
  return `Step ${step ?? "?"} (${source ?? "unknown"})`;
}

interface TimelineProps {
  states: ThreadState[];
  selected: string;
  onSelect: (id: string) => void;
}

export function Timeline({ states, selected, onSelect }: TimelineProps) {
  const rows = lanesOf(states.map((state) => ({ id: idOf(state), parent: state.parent_checkpoint?.checkpoint_id ?? undefined })));
  const width = Math.max(...rows.map((row) => Math.max(row.lane, ...row.passing, ...row.joins))) + 1;
  return (
    <ol className="list history-timeline" aria-label="Checkpoints">
      {states.map((state, index) => {
        const { step, source, run_id: runId } = metadataOf(state);
        const row = rows[index];
        return (
          <li key={idOf(state)}>
            <button type="button" aria-current={idOf(state) === selected ? "true" : undefined} data-source={source}
              data-lane={row?.lane} onClick={() => onSelect(idOf(state))}>
              {row && <Lanes row={row} count={width} />}
              <span className="grow history-entry">
                <span className="row between">
                  <strong>Step {step ?? "?"}</strong>
                  <span className={`history-source ${source ?? ""}`}>{source}</span>
                </span>
                <span className="row between hint">
                  <span className="cut">{state.next.length > 0 ? `next: ${state.next.join(", ")}` : "end"}</span>
                  {state.created_at && <Ago time={state.created_at} />}
                </span>
                {runId && <span className="hint mono">run {shortId(runId)}</span>}
              </span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}

const LANE = 14;
const HEIGHT = 76;
const MIDDLE = 22;

function Lanes({ row, count }: { row: Row; count: number }) {
  const x = (lane: number) => lane * LANE + LANE / 2;
  const own = x(row.lane);
  return (
    <svg className="history-lanes" width={count * LANE} height={HEIGHT} aria-hidden="true">
      {row.passing.map((lane) => <path key={lane} d={`M ${x(lane)} 0 V ${HEIGHT}`} />)}
      {row.joins.map((lane) => <path key={lane} d={`M ${x(lane)} 0 Q ${x(lane)} ${MIDDLE} ${own} ${MIDDLE}`} />)}
      {row.hasNewer && <path d={`M ${own} 0 V ${MIDDLE}`} />}
      {row.hasOlder && <path d={`M ${own} ${MIDDLE} V ${HEIGHT}`} />}
      <circle cx={own} cy={MIDDLE} r={4.5} />
    </svg>
  );
}
