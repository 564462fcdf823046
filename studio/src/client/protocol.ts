/** The newer protocol of a thread: start runs whose events are stored with their times, and read these events. */
import type { Run } from "@langchain/langgraph-sdk";
import { BytesLineDecoder, SSEDecoder } from "@langchain/langgraph-sdk/utils";

import type { Json } from "./json";
import { ApiError, authHeaders, request, serverUrl } from "./server";

export interface ThreadEvent {
  event_id: string;
  seq: number;
  method: string;
  params: { namespace: string[]; timestamp: number; data: Json };
}

/** What the SDK's type of a run leaves out. */
export type StoredRun = Run & {
  kwargs: { input?: unknown; command?: Json | null; config?: Json; context?: Json; stream_mode?: string[] | string };
};

/** Start a run and return its id; the thread is created if it is missing. */
export async function startRun(
  threadId: string, params: { assistant_id: string; input?: unknown; config?: Json },
): Promise<string> {
  const json = { id: 1, method: "run.start", params };
  const answer = await request<{ type: string; message?: string; result?: { run_id: string } }>(
    `/threads/${threadId}/commands`, { method: "POST", json },
  );
  if (answer.result === undefined) throw new ApiError(422, answer.message ?? "The run was not started.");
  return answer.result.run_id;
}

/** Whether the server stores the events of this run: runs of the older endpoints have checkpoints only. */
export function isRecorded(run: StoredRun): boolean {
  return run.kwargs.stream_mode?.includes("lifecycle") === true;
}

export function isActive(run: { status: string }): boolean {
  return run.status === "pending" || run.status === "running";
}

const CHANNELS = ["lifecycle", "tasks", "messages", "tools", "input"];

/** The stored events of a thread after a number, then the live ones, without the tokens of messages. */
export async function* readThreadEvents(threadId: string, since: number, signal: AbortSignal): AsyncGenerator<ThreadEvent> {
  const response = await fetch(`${serverUrl}/threads/${threadId}/stream/events`, {
    method: "POST", signal, headers: { ...authHeaders(), "content-type": "application/json" },
    body: JSON.stringify({ channels: CHANNELS, since }),
  });
  if (!response.ok || response.body === null) throw new ApiError(response.status, response.statusText);
  const reader = response.body.pipeThrough(BytesLineDecoder()).pipeThrough(SSEDecoder()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const event = part.value.data as ThreadEvent;
    if (event.params.data["event"] !== "content-block-delta") yield event;
  }
}

/** How long a run took, its time in the queue included; until now if it has not ended. */
export function elapsed(run: Run): number {
  return Math.max(0, (isActive(run) ? Date.now() : Date.parse(run.updated_at)) - Date.parse(run.created_at));
}

interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
}

/** The tokens that the server writes into the metadata of a run. */
export function usageOf(run: Run): Usage | undefined {
  return (run.metadata as { usage?: Usage } | null)?.usage;
}
