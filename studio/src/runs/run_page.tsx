import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { isActive, isRecorded, type StoredRun } from "../client/protocol";
import { langgraph } from "../client/server";
import { Badge } from "../ui/badge";
import { JsonView } from "../ui/json";
import { Empty, Loaded } from "../ui/states";
import { Ago, duration } from "../ui/time";
import { CancelButton, RerunButton } from "./actions";
import { useAssistantNames } from "./run_list";
import { shortId } from "./short_id";
import { elapsed, usageOf } from "./use_runs";
import { useRun, useTimeline } from "./use_timeline";
import { Waterfall } from "./waterfall";

/** /runs/THREAD/RUN */
export function RunPage({ threadId, runId }: { threadId: string; runId: string }) {
  const run = useRun(threadId, runId);
  return (
    <div className="page">
      <nav aria-label="Path"><Link href="/runs">Runs</Link> <span className="muted">/ {shortId(runId)}</span></nav>
      <Loaded query={run} what="the run">{(loaded) => <RunView run={loaded} />}</Loaded>
    </div>
  );
}

function RunView({ run }: { run: StoredRun }) {
  const timeline = useTimeline(run);
  const usage = usageOf(run);
  const name = useAssistantNames().get(run.assistant_id);
  return (
    <>
      <div className="row between">
        <div className="row">
          <h1>{name ?? "Run"}</h1>
          <span role="status"><Badge status={run.status} /></span>
        </div>
        <div className="row">
          {isActive(run) ? <CancelButton run={run} /> : <RerunButton run={run} />}
        </div>
      </div>
      <dl className="run-facts">
        <div><dt>Created</dt><dd><Ago time={run.created_at} /></dd></div>
        <div><dt>{isActive(run) ? "For" : "Duration"}</dt><dd>{duration(elapsed(run, !isActive(run)))}</dd></div>
        {usage && <div><dt>Tokens</dt><dd>{usage.total_tokens} ({usage.input_tokens} in, {usage.output_tokens} out)</dd></div>}
        <div><dt>Thread</dt><dd className="mono">{run.thread_id}</dd></div>
        <div><dt>Run</dt><dd className="mono">{run.run_id}</dd></div>
        <div>
          <dt>Open in</dt>
          <dd className="row">
            <Link href={`/chat/${run.thread_id}`}>Chat</Link>
            <Link href={`/history/${run.thread_id}`}>History</Link>
            <Link href={`/graphs/${run.assistant_id}?thread=${run.thread_id}&run=${run.run_id}`}>Graph</Link>
          </dd>
        </div>
      </dl>
      <RunError run={run} />
      <section className="stack" aria-label="Waterfall">
        <h2>What it did</h2>
        {timeline.spans.length > 0 ? <Waterfall timeline={timeline} /> :
          <Empty title={run.status === "pending" ? "It waits in the queue" : "Nothing recorded yet"} />}
        {!isRecorded(run) && (
          <p className="hint">The steps come from the checkpoints of this run. Model and tool calls are recorded for
            runs of the newer protocol (the studio, <code>@langchain/react</code>): “Run again” records them.</p>
        )}
      </section>
      <details><summary>Input</summary><JsonView value={run.kwargs.command ?? run.kwargs.input} label="Input" /></details>
      <details><summary>Metadata</summary><JsonView value={run.metadata} label="Metadata" /></details>
      <details><summary>Settings</summary><JsonView value={{ multitask_strategy: run.multitask_strategy, ...run.kwargs, input: undefined }} label="Settings" /></details>
    </>
  );
}

/** The thread has the error of its last run; for an earlier run, its own steps show it. */
function RunError({ run }: { run: StoredRun }) {
  const thread = useQuery({
    queryKey: ["thread", run.thread_id, run.status], enabled: run.status === "error" || run.status === "timeout",
    queryFn: async () => {
      const [found, last] = await Promise.all([
        langgraph().threads.get(run.thread_id), langgraph().runs.list(run.thread_id, { limit: 1 }),
      ]);
      return last[0]?.run_id === run.run_id ? (found as { error?: { error?: string; message?: string } | null }).error ?? null : null;
    },
  });
  if (!thread.data) return null;
  return <div className="error-box" role="alert"><p><strong>{thread.data.error}</strong>: {thread.data.message}</p></div>;
}
