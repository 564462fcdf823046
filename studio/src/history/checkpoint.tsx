/** One checkpoint: its values, tasks and metadata, a comparison with another, and what can be done from here. */
import type { ThreadState } from "@langchain/langgraph-sdk";
import { useState } from "react";
import { Link } from "wouter";

import { shortId } from "../runs/short_id";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { JsonView } from "../ui/json";
import { Ago } from "../ui/time";
import { EditState } from "./edit_state";
import { diff } from "./diff";
import { RunFromHere } from "./run_from_here";
import { idOf, metadataOf, nameOf } from "./use_history";

interface CheckpointProps {
  threadId: string;
  state: ThreadState;
  states: ThreadState[];
  comparedId: string | undefined;
  /** The assistant of the thread's last run, for checkpoints that no run has written. */
  assistantId: string | undefined;
  isBusy: boolean;
  onCompare: (id: string | undefined) => void;
  /** Show a new checkpoint; without an id the newest. */
  onShow: (id: string | undefined) => void;
}

export function Checkpoint(
  { threadId, state, states, comparedId, assistantId: lastId, isBusy, onCompare, onShow }: CheckpointProps,
) {
  const [dialog, setDialog] = useState<"edit" | "run">();
  const { run_id: runId, assistant_id: assistantId = lastId } = metadataOf(state);
  const compared = states.find((each) => idOf(each) === comparedId);
  const close = () => setDialog(undefined);
  return (
    <div className="page">
      <div className="row between">
        <h1>{nameOf(state)}</h1>
        <div className="row">
          <Button disabled={isBusy} title={isBusy ? "A run is working on this thread" : undefined} onClick={() => setDialog("edit")}>Edit state</Button>
          <Button kind="primary" disabled={assistantId === undefined} onClick={() => setDialog("run")}>Run from here</Button>
        </div>
      </div>
      <div className="row hint">
        {state.created_at && <Ago time={state.created_at} />}
        <span>Checkpoint <code>{idOf(state)}</code></span>
        {runId && <Link href={`/runs/${threadId}/${runId}`}>Run {shortId(runId)}</Link>}
        {runId && assistantId && <Link href={`/graphs/${assistantId}?thread=${threadId}&run=${runId}`}>Graph</Link>}
      </div>
      <label className="history-compare">
        Compare with
        <select value={comparedId ?? ""} onChange={(event) => onCompare(event.target.value || undefined)}>
          <option value="">–</option>
          {states.filter((each) => each !== state).map((each) => (
            <option key={idOf(each)} value={idOf(each)}>
              {nameOf(each)}{idOf(each) === state.parent_checkpoint?.checkpoint_id && ", the one before"}
              {each.created_at && `, ${new Date(each.created_at).toLocaleTimeString()}`}
            </option>
          ))}
        </select>
      </label>
      {compared && <Comparison before={compared} after={state} />}
      {state.tasks.length > 0 && <Tasks state={state} />}
      <section className="stack" aria-label="Values"><h2>Values</h2><JsonView value={state.values} label="Values" /></section>
      <details><summary>Metadata</summary><JsonView value={state.metadata} label="Metadata" /></details>
      <EditState isOpen={dialog === "edit"} threadId={threadId} assistantId={assistantId} state={state} onClose={close} onSaved={onShow} />
      <RunFromHere isOpen={dialog === "run"} threadId={threadId} assistantId={assistantId} state={state} onClose={close}
        onEnded={() => onShow(undefined)} />
    </div>
  );
}

function Tasks({ state }: { state: ThreadState }) {
  return (
    <section className="stack" aria-label="Tasks">
      <h2>Tasks</h2>
      {state.tasks.map((task) => (
        <div key={task.id} className="card">
          <div className="row between">
            <strong>{task.name}</strong>
            <Badge status={task.error ? "error" : task.interrupts.length > 0 ? "interrupted" : task.result ? "success" : "pending"} />
          </div>
          {task.error && <p className="problem">{task.error}</p>}
          {task.interrupts.map((interrupt, index) => (
            <JsonView key={interrupt.id ?? index} value={interrupt.value} label={`Interrupt of ${task.name}`} />
          ))}
          {Boolean(task.result) && <details><summary>Result</summary><JsonView value={task.result} label={`Result of ${task.name}`} /></details>}
        </div>
      ))}
    </section>
  );
}

function Comparison({ before, after }: { before: ThreadState; after: ThreadState }) {
  const changes = diff(before.values, after.values);
  return (
    <section className="stack" aria-label="Differences">
      <h2>Changes since {nameOf(before)}</h2>
      {changes.length === 0 && <p className="muted">The values are equal.</p>}
      <ul className="list">
        {changes.map((change) => (
          <li key={change.path} className="history-change" data-kind={change.kind}>
            <div className="row"><code>{change.path || "(whole state)"}</code><span className="hint">{change.kind}</span></div>
            {change.kind !== "added" && <pre className="removed"><span aria-hidden="true">− </span>{shown(change.before)}</pre>}
            {change.kind !== "removed" && <pre className="added"><span aria-hidden="true">+ </span>{shown(change.after)}</pre>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function shown(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
