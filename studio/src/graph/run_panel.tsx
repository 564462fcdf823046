/** Start a run of the drawn graph: a message, a form or JSON, on a new or a chosen thread. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useId, useState } from "react";
import { Link } from "wouter";

import { isActive, type Json, startRun, type StoredRun } from "../client/protocol";
import { langgraph } from "../client/server";
import { Button } from "../ui/button";
import { JsonEditor } from "../ui/json";
import { ErrorBox, Loading } from "../ui/states";

const SchemaForm = lazy(() => import("../ui/schema_form"));

interface RunPanelProps {
  assistantId: string;
  graphId: string;
  threadId: string | undefined;
  run: StoredRun | undefined;
  onStarted: (threadId: string, runId: string) => void;
  onThread: (threadId: string | undefined) => void;
}

export function RunPanel({ assistantId, graphId, threadId, run, onStarted, onThread }: RunPanelProps) {
  const queries = useQueryClient();
  const schemas = useQuery({ queryKey: ["schemas", assistantId], queryFn: () => langgraph().assistants.getSchemas(assistantId) });
  const threads = useQuery({
    queryKey: ["threads", "of-graph", graphId],
    queryFn: () => langgraph().threads.search({ metadata: { graph_id: graphId }, limit: 20, sortBy: "updated_at" }),
  });
  const start = useMutation({
    mutationFn: async (input: unknown) => {
      const thread = threadId ?? crypto.randomUUID();
      return { thread, run: await startRun(thread, { assistant_id: assistantId, input }) };
    },
    onSuccess: (started) => {
      onStarted(started.thread, started.run);
      void queries.invalidateQueries({ queryKey: ["threads"] });
    },
  });
  const stop = useMutation({ mutationFn: (active: StoredRun) => langgraph().runs.cancel(active.thread_id, active.run_id) });
  const others = (threads.data ?? []).map((thread) => thread.thread_id).filter((id) => id !== threadId);
  const status = threads.data?.find((thread) => thread.thread_id === threadId)?.status;
  const isBusy = start.isPending || (run !== undefined && isActive(run));
  return (
    <section className="stack" aria-label="Run">
      <h2>Run</h2>
      <label>
        Thread
        <select value={threadId ?? ""} onChange={(event) => onThread(event.target.value || undefined)}>
          <option value="">New thread</option>
          {threadId !== undefined && <option value={threadId}>{threadId}</option>}
          {others.map((id) => <option key={id} value={id}>{id}</option>)}
        </select>
      </label>
      {run && threadId && status === "interrupted" && !isActive(run) && (
        <p className="hint">This thread waits for an answer, and the input below is one. A form is
          in <Link href={`/chat/${threadId}`}>the chat</Link>.</p>
      )}
      {schemas.isPending ? <Loading what="the input" /> :
        <RunInput schema={schemas.data?.input_schema as Json | null | undefined} isBusy={isBusy} onSubmit={(input) => start.mutate(input)} />}
      {run && isActive(run) && <Button kind="danger" disabled={stop.isPending} onClick={() => stop.mutate(run)}>Stop</Button>}
      {(start.isError || stop.isError) && <ErrorBox error={start.error ?? stop.error} />}
    </section>
  );
}

type Mode = "message" | "form" | "json";
const LABELS = { message: "Message", form: "Form", json: "JSON" };

function RunInput({ schema, isBusy, onSubmit }: { schema: Json | null | undefined; isBusy: boolean; onSubmit: (input: unknown) => void }) {
  const properties = Object.keys((schema?.["properties"] as Json | undefined) ?? {});
  const hasMessages = properties.includes("messages");
  const modes: Mode[] = hasMessages ? ["message", "json"] : properties.length > 0 ? ["form", "json"] : ["json"];
  const [mode, setMode] = useState<Mode>(modes[0] ?? "json");
  const [text, setText] = useState("");
  const [value, setValue] = useState<unknown>(hasMessages ? { messages: [{ type: "human", content: "" }] } : {});
  const name = useId();
  const send = (event: React.SubmitEvent) => {
    event.preventDefault();
    onSubmit(mode === "message" ? { messages: [{ type: "human", content: text }] } : value);
  };
  return (
    <>
      {modes.length > 1 && (
        <div className="row" role="radiogroup" aria-label="Input as">
          {modes.map((each) => (
            <label key={each} className="inline">
              <input type="radio" name={name} checked={mode === each} onChange={() => setMode(each)} /> {LABELS[each]}
            </label>
          ))}
        </div>
      )}
      {mode === "form" && schema ? (
        <Suspense fallback={<Loading what="the form" />}>
          <SchemaForm schema={schema} submitLabel="Start run" isBusy={isBusy} onSubmit={onSubmit} />
        </Suspense>
      ) : (
        <form className="stack" onSubmit={send}>
          {mode === "message" ? (
            <label>
              Message
              <textarea rows={3} required value={text} onChange={(event) => setText(event.target.value)} />
            </label>
          ) : <JsonEditor label="Input" value={value} onChange={setValue} rows={7} />}
          <div className="row end">
            <Button kind="primary" type="submit" disabled={isBusy || (mode === "json" && value === undefined)}>Start run</Button>
          </div>
        </form>
      )}
    </>
  );
}
