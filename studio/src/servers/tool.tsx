/** One tool: what it does, a form made of its schema, and the result of a call. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useRef, useState } from "react";

import { path } from "../admin/parts";
import { App } from "../apps/app";
import { request } from "../client/server";
import { Button } from "../ui/button";
import { JsonEditor, JsonView } from "../ui/json";
import { ErrorBox, Loading } from "../ui/states";
import { ResultView } from "./result";
import type { ToolDetails, ToolResult } from "./types";

const SchemaForm = lazy(() => import("../ui/schema_form"));

export function Tool({ server, tool }: { server: string; tool: ToolDetails }) {
  const queries = useQueryClient();
  const stop = useRef<AbortController>(null);
  const [values, setValues] = useState<unknown>({});
  const [isJson, setJson] = useState(false);
  const call = useMutation({
    mutationFn: (value: unknown) => {
      stop.current = new AbortController();
      return request<{ result: ToolResult; duration_ms: number }>(`/servers${path(server)}/call`, {
        method: "POST", json: { tool: tool.own_name, arguments: value }, signal: stop.current.signal,
      });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["servers"] }),
  });
  const send = (value: unknown) => {
    setValues(value);
    call.mutate(value);
  };
  const uri = tool._meta?.ui?.resourceUri;
  const hasFields = Object.keys(tool.input_schema.properties ?? {}).length > 0;
  return (
    <div className="stack">
      <h2 className="mono">{tool.name}</h2>
      <p className="prose">{tool.description ?? "The server gives no description."}</p>
      {tool.requires_approval && <p className="hint">Graphs ask a user before they call this tool; here your click is the approval.</p>}
      {tool.annotations["destructiveHint"] === true && <p className="problem">This tool may delete or overwrite data.</p>}
      <div className="card">
        <div className="row between">
          <h3>Arguments</h3>
          {hasFields && <Button kind="quiet" onClick={() => setJson(!isJson)}>{isJson ? "As a form" : "As JSON"}</Button>}
        </div>
        {isJson ? <JsonArguments value={values} isBusy={call.isPending} onChange={setValues} onSubmit={send} /> : (
          <Suspense fallback={<Loading what="the form" />}>
            <SchemaForm schema={tool.input_schema} value={values} submitLabel="Call the tool" isBusy={call.isPending} onSubmit={send} />
          </Suspense>
        )}
        {call.isPending && (
          <div className="row" role="status">Waiting for the tool… <Button onClick={() => stop.current?.abort()}>Stop</Button></div>
        )}
      </div>
      {call.isError && <ErrorBox error={call.error} />}
      {call.isSuccess && <ResultView result={call.data.result} milliseconds={call.data.duration_ms} />}
      {call.isSuccess && typeof uri === "string" && (
        <App key={call.submittedAt} server={server} uri={uri} input={call.variables} result={call.data.result} />
      )}
      <details>
        <summary>Schema</summary>
        <JsonView value={tool.input_schema} label="Schema of the arguments" />
      </details>
    </div>
  );
}

interface JsonArgumentsProps {
  value: unknown;
  isBusy: boolean;
  onChange: (value: unknown) => void;
  onSubmit: (value: unknown) => void;
}

function JsonArguments({ value, isBusy, onChange, onSubmit }: JsonArgumentsProps) {
  const [edited, setEdited] = useState(value);
  const isObject = typeof edited === "object" && edited !== null && !Array.isArray(edited);
  const change = (next: unknown) => {
    setEdited(next);
    if (next !== undefined) onChange(next);
  };
  return (
    <>
      <JsonEditor label="Arguments as JSON" value={value} onChange={change} />
      <div><Button kind="primary" disabled={isBusy || !isObject} onClick={() => onSubmit(edited)}>Call the tool</Button></div>
    </>
  );
}
