/** /runs?status=STATUS: what waits and executes now, and what has ended; /runs/THREAD/RUN: one run. */
import type { Thread } from "@langchain/langgraph-sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import {
  elapsed, isActive, isRecorded, type Json, langgraph, startRun, type StoredRun, usageOf, useAssistantNames, useChange,
  useLastRun, useRun, useThread,
} from "../client";
import { useTimeline, Waterfall } from "../runs/timeline";
import {
  Ago, Badge, Button, DialogButton, duration, Empty, ErrorBox, Facts, Head, JsonSection, Loaded, RunLinks, Select, shortId,
  Table, usePath,
} from "../ui";

export default function RunsPage() {
  const [threadId, runId = ""] = usePath();
  const run = useRun(threadId, runId || undefined);
  if (runId === "") return <RunList />;
  return (
    <div className="page">
      <nav aria-label="Path"><Link href="/runs">Runs</Link> <span className="muted">/ {shortId(runId)}</span></nav>
      <Loaded query={run} what="the run">{(loaded) => <RunView key={runId} run={loaded} />}</Loaded>
    </div>
  );
}

const STATUSES = ["pending", "running", "success", "error", "interrupted", "timeout"];
const PAGE = 25;
const REFRESH_MS = 2000;
const RUNS_PER_THREAD = 20;
const MAX_ACTIVE = 1000;

function RunList() {
  const [search, setSearch] = useSearchParams();
  const status = search.get("status") ?? "";
  const [limit, setLimit] = useState(PAGE);
  const query = useRuns(limit);
  return (
    <div className="page">
      <Head title="Runs">
        <Select label="Status" className="inline" value={status} onChange={(value) => setSearch(value ? { status: value } : {})}
          options={[["", "All"], ...STATUSES.map((each) => [each, each] as const)]} />
      </Head>
      <Loaded query={query} what="runs">
        {({ runs, hasMore }) => {
          const shown = runs.filter((run) => status === "" || run.status === status);
          const queue = shown.filter(isActive).sort(
            (one, other) => other.status.localeCompare(one.status) || one.created_at.localeCompare(other.created_at),
          );
          const ended = shown.filter((run) => !isActive(run));
          return (
            <>
              {queue.length > 0 && <RunTable title="Queue" runs={queue} isQueue />}
              {ended.length > 0 && <RunTable title="Ended runs" runs={ended} />}
              {shown.length === 0 && (
                <Empty title={status === "" ? "No runs here" : `No runs here with status “${status}”`}>
                  <p>Start one in the <Link href="/chat">chat</Link> or on a <Link href="/graphs">graph</Link>.</p>
                </Empty>
              )}
              <p className="hint">These are the waiting and running runs, and the last {RUNS_PER_THREAD} of each of the
                {" "}{hasMore ? `${limit} threads that changed last` : "threads"}.</p>
              {hasMore && <div><Button onClick={() => setLimit(limit + PAGE)}>Show older threads</Button></div>}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

/**
 * The runs of the `limit` threads that changed last, and of all threads with work to do.
 * The API lists the runs of one thread: they are read again when the thread has changed.
 */
function useRuns(limit: number) {
  const queries = useQueryClient();
  return useQuery({
    queryKey: ["runs", limit],
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
    queryFn: async () => {
      const select: ("thread_id" | "updated_at" | "status")[] = ["thread_id", "updated_at", "status"];
      const [recent, busy] = await Promise.all([
        langgraph().threads.search({ limit, sortBy: "updated_at", sortOrder: "desc", select }),
        langgraph().threads.search({ limit: 100, status: "busy", select }),
      ]);
      const threads = new Map<string, Thread>([...busy, ...recent].map((thread) => [thread.thread_id, thread]));
      const lists = await Promise.all([...threads.values()].map(({ thread_id: id, updated_at: changedAt, status }) => queries.query({
        queryKey: ["runs", id, changedAt, status],
        staleTime: status === "busy" ? 0 : Infinity,
        queryFn: () => readRuns(id, status === "busy"),
      })));
      const runs = lists.flat().sort((one, other) => other.created_at.localeCompare(one.created_at));
      return { runs, hasMore: recent.length === limit };
    },
  });
}

/** The newest runs of a thread, and all active ones, which are older if many wait behind the running one. */
async function readRuns(threadId: string, isBusy: boolean): Promise<StoredRun[]> {
  const active = isBusy ? (["running", "pending"] as const).map((status) => ({ status, limit: MAX_ACTIVE })) : [];
  const lists = await Promise.all([{ limit: RUNS_PER_THREAD }, ...active].map((options) => langgraph().runs.list(threadId, options)));
  return [...new Map(lists.flat().map((run) => [run.run_id, run as StoredRun])).values()];
}

function RunTable({ title, runs, isQueue = false }: { title: string; runs: StoredRun[]; isQueue?: boolean }) {
  const nameOf = useAssistantNames();
  const pending = runs.filter((run) => run.status === "pending");
  const last = isQueue ? ["For", "Action"] : ["Duration", "Tokens"];
  return (
    <section className="stack" aria-label={title}>
      <h2>{title} <span className="muted">{runs.length}</span></h2>
      <Table label={`${title}, as a table`} head={["Status", "Run", "Assistant", "Thread", "Created", ...last]}>
        {runs.map((run) => (
          <tr key={run.run_id} data-run={run.run_id}>
            <td className="nowrap">
              <Badge status={run.status} />
              {run.status === "pending" && <span className="hint"> {pending.indexOf(run) + 1}.</span>}
            </td>
            <td><Link className="mono" href={`/runs/${run.thread_id}/${run.run_id}`}>{shortId(run.run_id)}</Link></td>
            <td>{nameOf(run.assistant_id)}</td>
            <td><Link className="mono" href={`/history/${run.thread_id}`}>{shortId(run.thread_id)}</Link></td>
            <td className="nowrap"><Ago time={run.created_at} /></td>
            <td className="nowrap">{duration(elapsed(run))}</td>
            <td>{isQueue ? <CancelButton run={run} /> : <span className="muted">{usageOf(run)?.total_tokens ?? "–"}</span>}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function RunView({ run }: { run: StoredRun }) {
  const timeline = useTimeline(run);
  const usage = usageOf(run);
  const nameOf = useAssistantNames();
  const settings = { multitask_strategy: run.multitask_strategy, ...run.kwargs, input: undefined };
  return (
    <>
      <Head title={nameOf(run.assistant_id)} status={run.status}>
        {isActive(run) ? <CancelButton run={run} /> : <RerunButton run={run} />}
      </Head>
      <Facts facts={{
        Created: <Ago time={run.created_at} />,
        [isActive(run) ? "For" : "Duration"]: duration(elapsed(run)),
        Tokens: usage && `${usage.total_tokens ?? 0} (${usage.input_tokens ?? 0} in, ${usage.output_tokens ?? 0} out)`,
        Thread: <span className="mono">{run.thread_id}</span>,
        Run: <span className="mono">{run.run_id}</span>,
        "Open in": <RunLinks threadId={run.thread_id} runId={run.run_id} assistantId={run.assistant_id} here="Run" />,
      }} />
      {(run.status === "error" || run.status === "timeout") && <RunError run={run} />}
      <section className="stack" aria-label="Waterfall">
        <h2>What it did</h2>
        {timeline.spans.length > 0 ? <Waterfall timeline={timeline} /> :
          <Empty title={run.status === "pending" ? "It waits in the queue" : "Nothing recorded yet"} />}
        {!isRecorded(run) && (
          <p className="hint">The steps come from the checkpoints of this run. Model and tool calls are recorded for
            runs of the newer protocol (the studio, <code>@langchain/react</code>): “Run again” records them.</p>
        )}
      </section>
      <JsonSection label="Input" value={run.kwargs.command ?? run.kwargs.input} isFolded />
      <JsonSection label="Metadata" value={run.metadata} isFolded />
      <JsonSection label="Settings" value={settings} isFolded />
    </>
  );
}

/** The thread has the error of its last run; for an earlier run, its own steps show it. */
function RunError({ run }: { run: StoredRun }) {
  const thread = useThread(run.thread_id);
  const last = useLastRun(run.thread_id);
  if (last.data?.run_id !== run.run_id || thread.data?.problem === undefined) return null;
  return <p className="error-box" role="alert">{thread.data.problem}</p>;
}

function CancelButton({ run }: { run: StoredRun }) {
  const cancel = useChange(
    (action: "interrupt" | "rollback") => langgraph().runs.cancel(run.thread_id, run.run_id, true, action), ["runs", "run"],
  );
  const stop = (action: "interrupt" | "rollback", onSuccess: () => void) => cancel.mutate(action, { onSuccess });
  return (
    <DialogButton kind="danger" title="Cancel the run" text="Cancel">
      {(close) => (
        <>
          <p><strong>Interrupt</strong> stops it and keeps the state that it has written.</p>
          <p><strong>Roll back</strong> stops it, deletes it, and restores the state from before it.</p>
          <ErrorBox error={cancel.error} />
          <div className="row end">
            <Button kind="danger" disabled={cancel.isPending} onClick={() => stop("rollback", close)}>Roll back</Button>
            <Button kind="primary" disabled={cancel.isPending} onClick={() => stop("interrupt", close)}>Interrupt</Button>
          </div>
        </>
      )}
    </DialogButton>
  );
}

/** The ids of the run itself, which the server adds to what the caller has configured. */
const RUN_KEYS = new Set([
  "run_id", "thread_id", "graph_id", "assistant_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map",
]);

/**
 * Run with the same input and configuration from the state in which the run began.
 * The first run of a thread began without a state: it is repeated on a new thread.
 */
async function rerun(run: StoredRun): Promise<{ threadId: string; runId: string }> {
  const written = await langgraph().threads.getHistory(run.thread_id, { limit: 1000, metadata: { run_id: run.run_id } });
  const before = written.at(-1)?.parent_checkpoint?.checkpoint_id;
  const threadId = before ? run.thread_id : crypto.randomUUID();
  const { configurable, recursion_limit: limit } = (run.kwargs.config ?? {}) as { configurable?: Json; recursion_limit?: number };
  const kept = Object.entries(configurable ?? {}).filter(([name]) => !RUN_KEYS.has(name));
  const runId = await startRun(threadId, {
    assistant_id: run.assistant_id, input: run.kwargs.input,
    config: {
      ...(limit === undefined ? {} : { recursion_limit: limit }),
      configurable: { ...run.kwargs.context, ...Object.fromEntries(kept), ...(before ? { checkpoint_id: before } : {}) },
    },
  });
  return { threadId, runId };
}

function RerunButton({ run }: { run: StoredRun }) {
  const [, navigate] = useLocation();
  const again = useChange(() => rerun(run), [], ({ threadId, runId }) => navigate(`/runs/${threadId}/${runId}`));
  if (run.kwargs.command) return null;
  return (
    <>
      <Button disabled={again.isPending} onClick={() => again.mutate()}
        title="Same input and configuration, from the state in which this run began">Run again</Button>
      <ErrorBox error={again.error} />
    </>
  );
}
