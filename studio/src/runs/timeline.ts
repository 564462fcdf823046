/** The nodes, model calls and tool calls of one run with their times: from its events, or from its checkpoints. */
import type { ThreadState } from "@langchain/langgraph-sdk";

import type { Json } from "../client/json";
import type { ThreadEvent } from "../client/protocol";

export type SpanStatus = "running" | "success" | "error" | "interrupted";

export interface Span {
  id: string;
  kind: "node" | "model" | "tool";
  name: string;
  /** The names of the graphs and the node, as in the drawing: `author:drafting:write`. */
  path: string;
  depth: number;
  start: number;
  end?: number;
  /** When the node began to wait for the first token of this model call, at the earliest. */
  waitingSince?: number;
  status: SpanStatus;
  input?: unknown;
  output?: unknown;
  error?: string;
  tokens?: number;
}

export interface Timeline {
  start?: number;
  end?: number;
  spans: Span[];
}

type Mutable = Span & { parent?: Mutable; children: Mutable[]; namespace: string };

/** Build the timeline of a run from the events of its thread. The runs of a thread follow one another. */
export function timelineOfEvents(events: ThreadEvent[], runId: string): Timeline {
  const timeline: Timeline = { spans: [] };
  const builder = new Builder();
  let isInside = false;
  for (const event of events) {
    const { namespace, timestamp, data } = event.params;
    if (event.method === "lifecycle" && namespace.length === 0) {
      const isOurs = event.event_id.startsWith(`synth:${runId}:`);
      if (data["event"] === "running") isInside = isOurs;
      if (isOurs && data["event"] === "running") timeline.start ??= timestamp;
      else if (isOurs) timeline.end = timestamp;
    } else if (isInside) builder.add(event);
  }
  if (timeline.end !== undefined) builder.closeAt(timeline.end);
  timeline.spans = builder.flatten();
  return timeline;
}

class Builder {
  private readonly roots: Mutable[] = [];
  private readonly spans = new Map<string, Mutable>();

  add({ method, params: { namespace, timestamp, data } }: ThreadEvent) {
    if (method === "tasks") this.addTask(namespace, timestamp, data);
    if (method === "messages") this.addMessage(namespace, timestamp, data);
    if (method === "tools") this.addTool(namespace, timestamp, data);
  }

  private addTask(namespace: string[], at: number, data: Json) {
    const id = String(data["id"]);
    if (!("result" in data)) {
      const parent = this.spans.get(namespace.at(-1)?.split(":")[1] ?? "");
      this.open({ id, kind: "node", name: String(data["name"]), at, input: data["input"] }, namespace, parent);
      return;
    }
    const span = this.spans.get(id);
    if (span) this.addModelCalls(namespace, at, span, data["result"]);
    const waits = Array.isArray(data["interrupts"]) && data["interrupts"].length > 0;
    this.close(span, at, { output: waits ? data["interrupts"] : data["result"], error: data["error"] },
      waits ? "interrupted" : "success");
  }

  /** Models that do not stream have no events: their messages tell, and the node's time is the nearest to theirs. */
  private addModelCalls(namespace: string[], at: number, node: Mutable, result: unknown) {
    const messages = (result as { messages?: unknown } | null)?.messages;
    if (!Array.isArray(messages) || node.children.some((child) => child.kind === "node")) return;
    for (const message of messages as Json[]) {
      const usage = message["usage_metadata"] as Json | undefined;
      const name = (message["response_metadata"] as Json | undefined)?.["model_name"];
      const id = String(message["id"]);
      if (message["type"] !== "ai" || (usage === undefined && name === undefined)) continue;
      const known = this.spans.get(id);
      const start = Math.max(node.start, ...node.children.map((child) => child.end ?? 0));
      const span = known ?? this.open({ id, kind: "model", name: "Model call", at: start }, namespace, node);
      if (known === undefined) this.close(span, at, { output: message["tool_calls"] ?? message["content"] });
      if (typeof name === "string") span.name = name;
      if (typeof usage?.["total_tokens"] === "number") span.tokens = usage["total_tokens"];
    }
  }

  private addMessage(namespace: string[], at: number, data: Json) {
    const parent = this.openIn(namespace, "node");
    if (data["event"] === "message-start") {
      const since = Math.max(parent?.start ?? at, ...(parent?.children ?? []).map((child) => child.end ?? 0));
      const metadata = data["metadata"] as Json | undefined;
      const name = typeof metadata?.["model"] === "string" ? metadata["model"] : "Model call";
      const span = this.open({ id: String(data["id"]), kind: "model", name, at }, namespace, parent);
      if (since < at) span.waitingSince = since;
      return;
    }
    const named = typeof data["id"] === "string" ? this.spans.get(data["id"]) : undefined;
    const span = named ?? this.openIn(namespace, "model");
    if (data["event"] === "content-block-finish" && span) {
      span.output = [...((span.output as unknown[] | undefined) ?? []), data["content"]];
    } else if (data["event"] === "message-finish" && span) {
      const tokens = (data["usage"] as Json | undefined)?.["total_tokens"];
      if (typeof tokens === "number") span.tokens = tokens;
      this.close(span, at, { output: span.output });
    } else if (data["event"] === "error") this.close(span, at, { error: data["message"] ?? "failed" });
  }

  private addTool(namespace: string[], at: number, data: Json) {
    const id = `tool:${String(data["tool_call_id"])}`;
    if (data["event"] === "tool-started") {
      const call = { id, kind: "tool" as const, name: String(data["tool_name"]), at, input: data["input"] };
      this.open(call, namespace, this.openIn(namespace, "node"));
      return;
    }
    if (data["event"] !== "tool-finished" && data["event"] !== "tool-error") return;
    const output = data["output"] as Json | undefined;
    const failed = data["event"] === "tool-error" || output?.["status"] === "error";
    const error = failed ? data["message"] ?? data["error"] ?? output?.["content"] : undefined;
    this.close(this.spans.get(id), at, { output, error });
  }

  /** The span of a kind that is open in a graph; the last one if several are. */
  private openIn(namespace: string[], kind: Span["kind"]): Mutable | undefined {
    const key = namespace.join("|");
    return [...this.spans.values()].findLast(
      (span) => span.kind === kind && span.namespace === key && span.end === undefined,
    );
  }

  private open(
    { at, ...given }: Pick<Span, "id" | "kind" | "name" | "input"> & { at: number }, namespace: string[], parent?: Mutable,
  ): Mutable {
    const graphs = namespace.map((step) => step.split(":")[0] ?? "").filter((name) => !/^\d*$/.test(name));
    const span: Mutable = {
      ...given, path: [...graphs, given.name].join(":"), depth: parent ? parent.depth + 1 : 0, start: at,
      status: "running", children: [], namespace: namespace.join("|"), ...(parent ? { parent } : {}),
    };
    this.spans.set(given.id, span);
    (parent?.children ?? this.roots).push(span);
    return span;
  }

  private close(
    span: Mutable | undefined, at: number, end: { output?: unknown; error?: unknown }, status: SpanStatus = "success",
  ) {
    if (span === undefined) return;
    Object.assign(span, { end: at, output: end.output, status });
    if (end.error === undefined || end.error === null) return;
    span.status = "error";
    span.error = describeError(end.error);
  }

  /** A cancelled run does not report the end of what it stopped. */
  closeAt(end: number) {
    for (const span of this.spans.values()) {
      if (span.end === undefined) Object.assign(span, { end, status: "interrupted" });
    }
  }

  flatten(): Span[] {
    const walk = (spans: Mutable[]): Span[] => spans.flatMap((span) => [span, ...walk(span.children)]);
    return walk(this.roots);
  }
}

function describeError(error: unknown): string {
  if (typeof error === "string") return error;
  const { error: name, message } = error as Json;
  return [name, message].filter((each) => typeof each === "string" && each !== "").join(": ") || JSON.stringify(error);
}

/** The steps of a run from its checkpoints, newest first as the server sends them: nodes of the root graph only. */
export function timelineOfCheckpoints(states: ThreadState[]): Timeline {
  const spans = states.toReversed().flatMap((state, index, all): Span[] => {
    const next = all[index + 1]?.created_at;
    return state.tasks.filter((task) => task.name !== "__start__").map((task) => ({
      id: task.id, kind: "node", name: task.name, path: task.name, depth: 0, start: Date.parse(state.created_at ?? ""),
      ...(next ? { end: Date.parse(next) } : {}), output: task.result, input: state.values,
      ...(task.error ? { error: task.error } : {}),
      status: task.error ? "error" : task.interrupts.length > 0 ? "interrupted" : next ? "success" : "running",
    }));
  });
  const last = Math.max(...states.map((state) => Date.parse(state.created_at ?? "")));
  return states.length === 0 ? { spans } : { spans, start: Date.parse(states.at(-1)?.created_at ?? ""), end: last };
}
