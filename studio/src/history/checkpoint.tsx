/** One checkpoint: its values, tasks and metadata, a comparison with another, and what can be done from here. */
import type { ThreadState } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { isObject, type Json } from "../client/json";
import { startRun } from "../client/protocol";
import { useChange } from "../client/queries";
import { langgraph } from "../client/server";
import {
  Ago, Badge, Button, CheckBox, Dialog, Form, Head, JsonEditor, JsonSection, JsonView, RunLinks, Select,
} from "../ui";
import { DiffView } from "../ui/diff";
import { idOf, metadataOf, nameOf } from "./timeline";

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

export function Checkpoint(props: CheckpointProps) {
  const { threadId, state, states, comparedId, isBusy, onCompare, onShow } = props;
  const [dialog, setDialog] = useState<"edit" | "run">();
  const { run_id: runId, assistant_id: assistantId = props.assistantId } = metadataOf(state);
  const compared = states.find((each) => idOf(each) === comparedId);
  const close = () => setDialog(undefined);
  const optionOf = (each: ThreadState) => {
    const isBefore = idOf(each) === state.parent_checkpoint?.checkpoint_id;
    const time = each.created_at ? `, ${new Date(each.created_at).toLocaleTimeString()}` : "";
    return [idOf(each), `${nameOf(each)}${isBefore ? ", the one before" : ""}${time}`] as const;
  };
  return (
    <>
      <Head title={nameOf(state)} level={2}>
        <Button disabled={isBusy} title={isBusy ? "A run is working on this thread" : undefined} onClick={() => setDialog("edit")}>
          Edit state
        </Button>
        <Button kind="primary" disabled={assistantId === undefined} onClick={() => setDialog("run")}>Run from here</Button>
      </Head>
      <div className="row hint">
        {state.created_at && <Ago time={state.created_at} />}
        <span>Checkpoint <code>{idOf(state)}</code></span>
        {runId && <RunLinks threadId={threadId} runId={runId} assistantId={assistantId} here="History" />}
      </div>
      <Select label="Compare with" value={comparedId ?? ""} onChange={(id) => onCompare(id || undefined)}
        options={[["", "–"], ...states.filter((each) => each !== state).map(optionOf)]} />
      {compared && <DiffView title={`Changes since ${nameOf(compared)}`} before={compared.values} after={state.values} />}
      {state.tasks.length > 0 && <Tasks state={state} />}
      <JsonSection label="Values" value={state.values} />
      <JsonSection label="Metadata" value={state.metadata} isFolded />
      <Dialog title="Edit state" isOpen={dialog === "edit"} onClose={close}>
        <EditState threadId={threadId} assistantId={assistantId} state={state} onDone={(id) => { close(); onShow(id); }} />
      </Dialog>
      <Dialog title="Run from here" isOpen={dialog === "run"} onClose={close}>
        <RunFromHere threadId={threadId} assistantId={assistantId} state={state} onDone={() => { close(); onShow(undefined); }} />
      </Dialog>
    </>
  );
}

function Tasks({ state }: { state: ThreadState }) {
  return (
    <section className="stack" aria-label="Tasks">
      <h3>Tasks</h3>
      {state.tasks.map(({ id, name, error, interrupts, result }) => (
        <div key={id} className="card">
          <div className="row between">
            <strong>{name}</strong>
            <Badge status={error ? "error" : interrupts.length > 0 ? "interrupted" : result ? "success" : "pending"} />
          </div>
          {error && <p className="problem">{error}</p>}
          {interrupts.map((each, index) => <JsonView key={index} value={each.value} label={`Interrupt of ${name}`} />)}
          {Boolean(result) && <JsonSection label="Result" value={result} isFolded />}
        </div>
      ))}
    </section>
  );
}

interface ActionProps {
  threadId: string;
  assistantId: string | undefined;
  state: ThreadState;
  onDone: (checkpointId: string | undefined) => void;
}

/** Write changed values on top of a checkpoint: a new checkpoint, which is the thread's newest. */
function EditState({ threadId, assistantId, state, onDone }: ActionProps) {
  const [values, setValues] = useState<unknown>(state.values);
  const [asNode, setAsNode] = useState("");
  const drawing = useQuery({
    queryKey: ["drawing", assistantId, "flat"],
    enabled: assistantId !== undefined,
    queryFn: () => langgraph().assistants.getGraph(assistantId ?? ""),
  });
  const nodes = (drawing.data?.nodes ?? []).map((node) => String(node.id)).filter((id) => !id.startsWith("__"));
  const changed = Object.entries(isObject(values) ? values : {})
    .filter(([key, value]) => JSON.stringify(value) !== JSON.stringify((state.values as Json)[key]));
  const save = useChange(() => langgraph().threads.updateState(threadId, {
    values: Object.fromEntries(changed), checkpoint: { ...state.checkpoint, checkpoint_id: idOf(state) },
    ...(asNode === "" ? {} : { asNode }),
  }), ["thread"], ({ configurable }) => onDone((configurable as { checkpoint_id?: string } | undefined)?.checkpoint_id));
  return (
    <Form submit="Save as new checkpoint" isDisabled={save.isPending || changed.length === 0} error={save.error} onSubmit={save.mutate}>
      <JsonEditor label="Values" value={values} onChange={setValues} rows={14} />
      <p className="hint">Only keys that you change are sent. They pass the graph’s reducers: a message with a known
        id replaces that message, and lists that a graph appends to grow.</p>
      <Select label="As node" value={asNode} onChange={setAsNode}
        options={[["", "The node that wrote last"], ...nodes.map((id) => [id, id] as const)]} />
    </Form>
  );
}

/** Continue a thread from a checkpoint, as it is or with new input: a fork, whose end is the thread's newest state. */
function RunFromHere({ threadId, assistantId, state, onDone }: ActionProps) {
  const canContinue = state.next.length > 0;
  const [hasInput, setHasInput] = useState(!canContinue);
  const [input, setInput] = useState<unknown>({});
  const run = useChange(async () => {
    const runId = await startRun(threadId, {
      assistant_id: assistantId ?? "", ...(hasInput ? { input } : {}), config: { configurable: { checkpoint_id: idOf(state) } },
    });
    await langgraph().runs.join(threadId, runId);
  }, ["thread"], () => onDone(undefined));
  return (
    <Form submit="Start run" isDisabled={run.isPending || (hasInput && input === undefined)} error={run.error} onSubmit={run.mutate}>
      <p>{canContinue ? `Continue with ${state.next.join(", ")}.` : "Nothing is left to do here: a run needs new input."}</p>
      {canContinue && <CheckBox label="Start with new input instead" value={hasInput} onChange={setHasInput} />}
      {hasInput && <JsonEditor label="Input" value={input} onChange={setInput} />}
      {run.isPending && <p role="status">The run executes. You may close this window: it goes on.</p>}
    </Form>
  );
}
