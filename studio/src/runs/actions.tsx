/** Cancel a run, and run it again. */
import { useState } from "react";
import { useLocation } from "wouter";

import type { Json } from "../client/json";
import { startRun, type StoredRun } from "../client/protocol";
import { useChange } from "../client/queries";
import { langgraph } from "../client/server";
import { Button, Dialog, ErrorBox } from "../ui";

export function CancelButton({ run }: { run: StoredRun }) {
  const [isOpen, setOpen] = useState(false);
  const cancel = useChange(
    (action: "interrupt" | "rollback") => langgraph().runs.cancel(run.thread_id, run.run_id, true, action),
    ["runs", "run"], () => setOpen(false),
  );
  return (
    <>
      <Button kind="danger" onClick={() => setOpen(true)}>Cancel</Button>
      <Dialog title="Cancel the run" isOpen={isOpen} onClose={() => setOpen(false)}>
        <p><strong>Interrupt</strong> stops it and keeps the state that it has written.</p>
        <p><strong>Roll back</strong> stops it, deletes it, and restores the state from before it.</p>
        <ErrorBox error={cancel.error} />
        <div className="row end">
          <Button kind="danger" disabled={cancel.isPending} onClick={() => cancel.mutate("rollback")}>Roll back</Button>
          <Button kind="primary" disabled={cancel.isPending} onClick={() => cancel.mutate("interrupt")}>Interrupt</Button>
        </div>
      </Dialog>
    </>
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

export function RerunButton({ run }: { run: StoredRun }) {
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
