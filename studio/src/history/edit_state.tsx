import type { ThreadState } from "@langchain/langgraph-sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { JsonEditor } from "../ui/json";
import { ErrorBox } from "../ui/states";
import { idOf } from "./use_history";

interface EditStateProps {
  isOpen: boolean;
  threadId: string;
  assistantId: string | undefined;
  state: ThreadState;
  onClose: () => void;
  onSaved: (checkpointId: string | undefined) => void;
}

/** Write changed values on top of a checkpoint: a new checkpoint, which is the thread's newest. */
export function EditState({ isOpen, threadId, assistantId, state, onClose, onSaved }: EditStateProps) {
  const queries = useQueryClient();
  const original = state.values as Record<string, unknown>;
  const [values, setValues] = useState<unknown>(original);
  const [asNode, setAsNode] = useState("");
  const drawing = useQuery({
    queryKey: ["drawing", assistantId, "flat"], enabled: isOpen && assistantId !== undefined,
    queryFn: () => langgraph().assistants.getGraph(assistantId ?? ""),
  });
  const nodes = (drawing.data?.nodes ?? []).map((node) => String(node.id)).filter((id) => !id.startsWith("__"));
  const changed = changedKeys(original, values);
  const close = () => {
    setValues(original);
    onClose();
  };
  const save = useMutation({
    mutationFn: () => langgraph().threads.updateState(threadId, {
      values: changed, checkpoint: { ...state.checkpoint, checkpoint_id: idOf(state) },
      ...(asNode === "" ? {} : { asNode }),
    }),
    onSuccess: (written) => {
      void queries.invalidateQueries({ queryKey: ["thread", threadId] });
      close();
      onSaved((written.configurable as { checkpoint_id?: string } | undefined)?.checkpoint_id);
    },
  });
  return (
    <Dialog title="Edit state" isOpen={isOpen} onClose={close}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
        <JsonEditor label="Values" value={original} onChange={setValues} rows={14} />
        <p className="hint">Only keys that you change are sent. They pass the graph’s reducers: a message with a known
          id replaces that message, and lists that a graph appends to grow.</p>
        <label>
          As node
          <select value={asNode} onChange={(event) => setAsNode(event.target.value)}>
            <option value="">The node that wrote last</option>
            {nodes.map((id) => <option key={id} value={id}>{id}</option>)}
          </select>
        </label>
        {save.isError && <ErrorBox error={save.error} />}
        <div className="row end">
          <Button kind="primary" type="submit" disabled={save.isPending || changed === undefined || Object.keys(changed).length === 0}>
            Save as new checkpoint
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function changedKeys(before: Record<string, unknown>, after: unknown): Record<string, unknown> | undefined {
  if (typeof after !== "object" || after === null || Array.isArray(after)) return undefined;
  return Object.fromEntries(
    Object.entries(after).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key])),
  );
}
