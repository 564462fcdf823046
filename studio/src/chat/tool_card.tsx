/** One tool call: what was asked, what came back, from where, and how long it took. */
import { App, resultOf } from "../apps/app";
import { Badge, duration, JsonView } from "../ui";
import { ToolResult } from "../ui/content";
import { type ChatMessage, factsOf, type ToolCall } from "./messages";

export type CallState = "running" | "pending" | "success" | "error" | "no result";

interface ToolCardProps {
  call: ToolCall;
  result: ChatMessage | undefined;
  state: CallState;
}

export function ToolCard({ call, result, state }: ToolCardProps) {
  const facts = factsOf(result);
  const retries = (facts.attempts ?? 1) - 1;
  const card = (
    <details className={`tool-card ${state}`} open={state === "error"} data-call={call.id}>
      <summary>
        <span className="mono grow cut">{call.name || "tool"}</span>
        <span className="tool-facts hint">
          {facts.server !== undefined && <span title="MCP server">{facts.server}</span>}
          {facts.duration_ms !== undefined && <span title="Duration">{duration(facts.duration_ms)}</span>}
          {retries > 0 && <span title="Attempts after the first">{retries === 1 ? "1 retry" : `${retries} retries`}</span>}
        </span>
        {state === "running"
          ? <span className="badge busy"><span className="spinner" aria-hidden="true" /> running</span>
          : <Badge status={state} />}
      </summary>
      <h3>Arguments</h3>
      {typeof call.args === "string"
        ? <pre className="json" tabIndex={0}>{call.args}</pre>
        : <JsonView value={call.args} label="Arguments" />}
      {result && <h3>{state === "error" ? "Error" : "Result"}</h3>}
      {result && <ToolResult content={result.content} />}
    </details>
  );
  if (result === undefined || facts.app === undefined || facts.server === undefined) return card;
  return <>{card}<App server={facts.server} uri={facts.app} input={call.args} result={resultOf(result)} /></>;
}
