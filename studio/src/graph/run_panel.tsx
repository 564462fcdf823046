/** Start a run of the drawn graph, on a new or a chosen thread. */
import { Link } from "wouter";

import { RunInput } from "../chat/run_input";
import type { Json } from "../client/json";
import { isActive, startRun, type StoredRun } from "../client/protocol";
import { useChange, useSchemas, useThreads } from "../client/queries";
import { langgraph } from "../client/server";
import { ErrorBox, Loaded, Select, shortId } from "../ui";

const MAX_THREADS = 20;

interface RunPanelProps {
  assistantId: string;
  graphId: string;
  threadId: string | undefined;
  run: StoredRun | undefined;
  onStarted: (threadId: string, runId: string) => void;
  onThread: (threadId: string | undefined) => void;
}

export function RunPanel({ assistantId, graphId, threadId, run, onStarted, onThread }: RunPanelProps) {
  const schemas = useSchemas(assistantId);
  const threads = useThreads(MAX_THREADS, { graph_id: graphId }).data ?? [];
  const start = useChange(async (input: Json) => {
    const thread = threadId ?? crypto.randomUUID();
    return { thread, run: await startRun(thread, { assistant_id: assistantId, input }) };
  }, ["threads"], (started) => onStarted(started.thread, started.run));
  const stop = useChange((active: StoredRun) => langgraph().runs.cancel(active.thread_id, active.run_id), ["run"]);
  const isRunning = run !== undefined && isActive(run);
  const isWaiting = threads.some((thread) => thread.id === threadId && thread.status === "interrupted");
  const isListed = threads.some((thread) => thread.id === threadId);
  return (
    <section className="stack" aria-label="Run">
      <h2>Run</h2>
      <Select label="Thread" value={threadId ?? ""} onChange={(id) => onThread(id || undefined)} options={[
        ["", "New thread"],
        ...(threadId === undefined || isListed ? [] : [[threadId, threadId] as const]),
        ...threads.map(({ id, title }) => [id, `${title} (${shortId(id)})`] as const),
      ]} />
      {threadId && isWaiting && !isRunning && (
        <p className="hint">This thread waits for an answer, and the input below is one. A form is
          in <Link href={`/chat/${threadId}`}>the chat</Link>.</p>
      )}
      <Loaded query={schemas} what="the input">
        {({ input_schema: schema }) => (
          <RunInput schema={schema} isRunning={isRunning} isBlocked={start.isPending} placeholder="Message"
            onRun={start.mutate} onStop={() => run && stop.mutate(run)} />
        )}
      </Loaded>
      <ErrorBox error={start.error ?? stop.error} />
    </section>
  );
}
