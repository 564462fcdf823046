/** One tool: what it does, a form made of its schema, and the result of a call. */
import { useRef } from "react";

import { App } from "../apps/app";
import { useChange } from "../client/queries";
import { request } from "../client/server";
import { Badge, Button, duration, ErrorBox, Head, JsonSection, path, SchemaInput } from "../ui";
import { ToolResult } from "../ui/content";
import type { CallAnswer, ToolDetails } from "./types";

export function Tool({ server, tool }: { server: string; tool: ToolDetails }) {
  const stop = useRef<AbortController>(null);
  const call = useChange((value: unknown) => {
    stop.current = new AbortController();
    const json = { tool: tool.own_name, arguments: value };
    return request<CallAnswer>(`/servers${path(server)}/call`, { method: "POST", json, signal: stop.current.signal });
  }, ["servers"]);
  const uri = tool._meta?.ui?.resourceUri;
  return (
    <>
      <Head title={tool.name} level={2} />
      <p className="prose">{tool.description ?? "The server gives no description."}</p>
      {tool.requires_approval && (
        <p className="hint">Graphs ask a user before they call this tool; here your click is the approval.</p>
      )}
      {tool.annotations["destructiveHint"] === true && <p className="problem">This tool may delete or overwrite data.</p>}
      <div className="card">
        <SchemaInput label="Arguments" schema={tool.input_schema} submit="Call the tool" isDisabled={call.isPending}
          onSubmit={call.mutate} actions={call.isPending && (
            <>
              <span role="status">Waiting for the tool…</span>
              <Button onClick={() => stop.current?.abort()}>Stop</Button>
            </>
          )} />
      </div>
      <ErrorBox error={call.error} />
      {call.isSuccess && <CallResult answer={call.data} />}
      {call.isSuccess && typeof uri === "string" && (
        <App key={call.submittedAt} server={server} uri={uri} input={call.variables} result={call.data.result} />
      )}
      <JsonSection label="Schema" value={tool.input_schema} isFolded />
    </>
  );
}

function CallResult({ answer: { result, duration_ms: milliseconds } }: { answer: CallAnswer }) {
  return (
    <section className="stack" aria-label="Result" aria-live="polite">
      <div className="row">
        <h3>Result</h3>
        <Badge status={result.isError === true ? "error" : "success"} />
        <span className="muted">{duration(milliseconds)}</span>
      </div>
      {result._meta?.["toolweave/questions"]?.map(({ message }) => (
        <p key={message}>The server asked “{message}” and got no answer: a graph can ask you in the chat.</p>
      ))}
      <ToolResult content={result.content} structured={result.structuredContent} />
    </section>
  );
}
