import type { ThreadState } from "@langchain/langgraph-sdk";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { startRun } from "../client/protocol";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { JsonEditor } from "../ui/json";
import { ErrorBox } from "../ui/states";
import { idOf } from "./use_history";

interface RunFromHereProps {
  isOpen: boolean;
  threadId: string;
  assistantId: string | undefined;
  state: ThreadState;
  onClose: () => void;
  onEnded: () => void;
}

/** Continue a thread from a checkpoint, as it is or with new input: a fork, whose end is the thread's newest state. */
export function RunFromHere({ isOpen, threadId, assistantId, state, onClose, onEnded }: RunFromHereProps) {
  const queries = useQueryClient();
  const canContinue = state.next.length > 0;
  const [hasInput, setHasInput] = useState(!canContinue);
  const [input, setInput] = useState<unknown>({});
  const run = useMutation({
    mutationFn: async () => {
      const runId = await startRun(threadId, {
        assistant_id: assistantId ?? "", ...(hasInput ? { input } : {}),
        config: { configurable: { checkpoint_id: idOf(state) } },
      });
      void queries.invalidateQueries({ queryKey: ["thread", threadId] });
      await langgraph().runs.join(threadId, runId);
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["thread", threadId] });
      onClose();
      onEnded();
    },
  });
  const isSuitable = hasInput ? input !== undefined : canContinue;
  return (
    <Dialog title="Run from here" isOpen={isOpen} onClose={onClose}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); run.mutate(); }}>
        <label className="inline">
          <input type="radio" name="input" checked={!hasInput} disabled={!canContinue} onChange={() => setHasInput(false)} />
          {canContinue ? `Continue with ${state.next.join(", ")}` : "Continue: nothing is left to do here"}
        </label>
        <label className="inline">
          <input type="radio" name="input" checked={hasInput} onChange={() => setHasInput(true)} />
          Start with new input
        </label>
        {hasInput && <JsonEditor label="Input" value={input} onChange={setInput} />}
        {run.isError && <ErrorBox error={run.error} />}
        {run.isPending && <p role="status">The run executes. You may close this window: it goes on.</p>}
        <div className="row end"><Button kind="primary" type="submit" disabled={run.isPending || !isSuitable}>Start run</Button></div>
      </form>
    </Dialog>
  );
}
