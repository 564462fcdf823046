/** /runs/THREAD/RUN */
import { Link } from "wouter";

import { elapsed, isActive, isRecorded, type StoredRun, usageOf } from "../client/protocol";
import { useAssistantNames, useLastRun, useRun, useThread } from "../client/queries";
import { Ago, duration, Empty, Facts, Head, JsonSection, Loaded, RunLinks, shortId } from "../ui";
import { CancelButton, RerunButton } from "./actions";
import { useTimeline } from "./use_timeline";
import { Waterfall } from "./waterfall";

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
