/** /history/THREAD?checkpoint=ID&with=ID */
import type { ThreadState } from "@langchain/langgraph-sdk";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";

import { isObject, type Json, langgraph, startRun, type ThreadInfo, useChange, useThread, useThreads } from "../client";
import "./history.css";
import {
  Ago, Badge, Button, CheckBox, DialogButton, Empty, ErrorBox, Form, Head, JsonEditor, JsonSection, JsonView, Loaded,
  Loading, NavList, RunLinks, Select, shortId, SplitPage, usePath,
} from "../ui";
import { DiffView } from "../ui/diff";

const THREADS = 30;
const CHECKPOINTS = 40;

export default function HistoryPage() {
  const [threadId] = usePath();
  return threadId === undefined ? <ThreadPicker /> : <ThreadHistory key={threadId} threadId={threadId} />;
}

function ThreadPicker() {
  const threads = useThreads(THREADS);
  return (
    <div className="page">
      <Head title="History" />
      <Loaded query={threads} what="threads">
        {(found) => (
          <NavList search="Search threads" query={threads} empty="No threads yet: start one in the chat or on a graph." items={found.map((thread) => ({
            href: `/history/${thread.thread_id}`, title: thread.title, status: thread.status, words: thread.thread_id,
            hint: <><code>{thread.thread_id}</code> {thread.graph}, <Ago time={thread.updated_at} /></>,
          }))} />
        )}
      </Loaded>
    </div>
  );
}

/** The checkpoints of a thread, newest first; `changedAt` is the time of the thread's last change. */
function useHistory(threadId: string, changedAt: string | undefined) {
  return useInfiniteQuery({
    queryKey: ["history", threadId, changedAt],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => langgraph().threads.getHistory(threadId, {
      limit: CHECKPOINTS, ...(pageParam === undefined ? {} : { before: { configurable: { checkpoint_id: pageParam } } }),
    }),
    getNextPageParam: (page) => (page.length < CHECKPOINTS ? undefined : page.at(-1)?.checkpoint.checkpoint_id ?? undefined),
    placeholderData: (before) => before,
    enabled: changedAt !== undefined,
  });
}

/** Checkpoints that a link names and that are older than those that are shown. */
function useLinked(threadId: string, ids: (string | null)[], shown: ThreadState[] | undefined) {
  const missing = ids.filter((id) => id !== null && id !== "" && !shown?.some((state) => idOf(state) === id)) as string[];
  return useQuery({
    queryKey: ["checkpoint", threadId, missing],
    enabled: shown !== undefined && missing.length > 0,
    queryFn: () => Promise.all(missing.map((id) => langgraph().threads.getState<Json>(threadId, id))),
  });
}

function ThreadHistory({ threadId }: { threadId: string }) {
  const [search, setSearch] = useSearchParams();
  const thread = useThread(threadId);
  const history = useHistory(threadId, thread.data && `${thread.data.updated_at} ${thread.data.status}`);
  const states = history.data?.pages.flat() ?? [];
  const wanted = search.get("checkpoint");
  const linked = useLinked(threadId, [wanted, search.get("with")], history.data && states);
  const known = [...states, ...(linked.data ?? [])];
  const state = known.find((each) => idOf(each) === wanted) ?? (wanted === null ? states[0] : undefined);
  const error = thread.error ?? history.error ?? linked.error;
  const show = (checkpoint: string | undefined, other?: string) =>
    setSearch({ ...(checkpoint ? { checkpoint } : {}), ...(other ? { with: other } : {}) });
  return (
    <SplitPage title="History" label="Checkpoint" actions={<Link href="/history">All threads</Link>} list={
      <>
        <div className="row between">
          <RunLinks threadId={threadId} assistantId={thread.data?.assistantId} here="History" />
          {thread.data && <span role="status"><Badge status={thread.data.status} /></span>}
        </div>
        <p className="mono hint cut" title={threadId}>{threadId}</p>
        {states.length > 0 && <Timeline states={states} selected={state ? idOf(state) : ""} onSelect={(id) => show(id)} />}
        {history.hasNextPage && (
          <Button disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>Show older checkpoints</Button>
        )}
      </>
    }>
      <ErrorBox error={error} onRetry={() => void thread.refetch()} />
      {state && thread.data && (
        <Checkpoint key={idOf(state)} thread={thread.data} state={state} states={known} comparedId={search.get("with")} onShow={show} />
      )}
      {!state && error === null && (history.isPending || linked.isLoading) && <Loading what="the history" />}
      {linked.isError && <div><Button onClick={() => show(undefined)}>Show the newest</Button></div>}
      {wanted === null && history.isSuccess && states.length === 0 && (
        <Empty title="No checkpoints yet"><p>This thread has not run.</p></Empty>
      )}
    </SplitPage>
  );
}

interface CheckpointProps {
  thread: ThreadInfo;
  state: ThreadState;
  states: ThreadState[];
  comparedId: string | null;
  /** Show a checkpoint, compared with another; without an id the newest. */
  onShow: (id: string | undefined, other?: string) => void;
}

function Checkpoint({ thread, state, states, comparedId, onShow }: CheckpointProps) {
  // Checkpoints that no run has written have the assistant of the thread's last run.
  const { run_id: runId, assistant_id: assistantId = thread.assistantId } = metadataOf(state);
  const action = { threadId: thread.thread_id, assistantId, state };
  const compared = states.find((each) => idOf(each) === comparedId);
  const optionOf = (each: ThreadState) => {
    const isBefore = idOf(each) === state.parent_checkpoint?.checkpoint_id;
    const time = each.created_at ? `, ${new Date(each.created_at).toLocaleTimeString()}` : "";
    return [idOf(each), `${nameOf(each)}${isBefore ? ", the one before" : ""}${time}`] as const;
  };
  return (
    <>
      <Head title={nameOf(state)} level={2}>
        <DialogButton title="Edit state" disabled={thread.status === "busy"}>
          {(close) => <EditState {...action} onDone={(id) => { close(); onShow(id); }} />}
        </DialogButton>
        <DialogButton kind="primary" title="Run from here" disabled={assistantId === undefined}>
          {(close) => <RunFromHere {...action} onDone={() => { close(); onShow(undefined); }} />}
        </DialogButton>
      </Head>
      <div className="row hint">
        {state.created_at && <Ago time={state.created_at} />}
        <span>Checkpoint <code>{idOf(state)}</code></span>
        {runId && <RunLinks threadId={thread.thread_id} runId={runId} assistantId={assistantId} here="History" />}
      </div>
      <Select label="Compare with" value={comparedId ?? ""} onChange={(id) => onShow(idOf(state), id)}
        options={[["", "–"], ...states.filter((each) => each !== state).map(optionOf)]} />
      {compared && <DiffView title={`Changes since ${nameOf(compared)}`} before={compared.values} after={state.values} />}
      {state.tasks.length > 0 && <Tasks state={state} />}
      <JsonSection label="Values" value={state.values} />
      <JsonSection label="Metadata" value={state.metadata} isFolded />
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
  const differs = (value: unknown, from: unknown) => JSON.stringify(value) !== JSON.stringify(from);
  const before: unknown = state.values;
  const changed = isObject(values) && isObject(before)
    ? Object.fromEntries(Object.entries(values).filter(([key, value]) => differs(value, before[key]))) : values;
  const save = useChange(() => langgraph().threads.updateState(threadId, {
    values: changed, checkpoint: { ...state.checkpoint, checkpoint_id: idOf(state) },
    ...(asNode === "" ? {} : { asNode }),
  }), ["thread"], ({ configurable }) => onDone((configurable as { checkpoint_id?: string } | undefined)?.checkpoint_id));
  return (
    <Form submit="Save as new checkpoint" isDisabled={save.isPending || values === undefined || !differs(values, before)} error={save.error} onSubmit={save.mutate}>
      <JsonEditor label="Values" value={values} onChange={setValues} rows={14} />
      <p className="hint">Only keys that you change are sent; a key that you remove stays as it is. They pass the graph’s reducers: a message with a known
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

function idOf(state: ThreadState): string {
  return state.checkpoint.checkpoint_id ?? "";
}

function metadataOf(state: ThreadState): { source?: string; step?: number; run_id?: string; assistant_id?: string } {
  return state.metadata ?? {};
}

/** "Step 3 (loop)": how a checkpoint is named in lists. */
function nameOf(state: ThreadState): string {
  const { step, source } = metadataOf(state);
  return `Step ${step ?? "?"} (${source ?? "unknown"})`;
}

interface TimelineProps {
  states: ThreadState[];
  selected: string;
  onSelect: (id: string) => void;
}

function Timeline({ states, selected, onSelect }: TimelineProps) {
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
                  {source && <Badge status={source} />}
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

interface Row {
  lane: number;
  /** Lanes of newer checkpoints that end here: their parent is this one. */
  joins: number[];
  /** Lanes that pass by. */
  passing: number[];
  hasNewer: boolean;
  hasOlder: boolean;
}

/** Assign a lane to each checkpoint, newest first. A lane waits for the parent of its last checkpoint. */
export function lanesOf(checkpoints: { id: string; parent: string | undefined }[]): Row[] {
  const waiting: (string | undefined)[] = [];
  return checkpoints.map(({ id, parent }) => {
    const own = waiting.flatMap((expected, lane) => (expected === id ? [lane] : []));
    const free = waiting.indexOf(undefined);
    const lane = own[0] ?? (free === -1 ? waiting.length : free);
    for (const each of own) waiting[each] = undefined;
    const passing = waiting.flatMap((expected, each) => (expected === undefined ? [] : [each]));
    waiting[lane] = parent;
    return { lane, joins: own.slice(1), passing, hasNewer: own.length > 0, hasOlder: parent !== undefined };
  });
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
