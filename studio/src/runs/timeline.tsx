/** What one run did: its nodes, model calls and tool calls with their times, and their bars. */
import type { ThreadState } from "@langchain/langgraph-sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import {
  errorStatus, isActive, isRecorded, type Json, langgraph, readThreadEvents, type StoredRun, type ThreadEvent,
} from "../client";
import { Badge, duration, JsonSection, toneOf } from "../ui";
import "./timeline.css";

export function Waterfall({ timeline }: { timeline: Timeline }) {
  const [selected, setSelected] = useState<string>();
  const from = Math.min(...timeline.spans.map((span) => span.start));
  const last = Math.max(timeline.end ?? 0, ...timeline.spans.map((span) => span.end ?? span.start));
  const now = useNow(timeline.end === undefined);
  const length = Math.max(1, (timeline.end === undefined ? Math.max(last, now) : last) - from);
  const percent = (time: number) => (100 * (time - from)) / length;
  return (
    <div className="card waterfall">
      <div className="waterfall-scale hint" aria-hidden="true">
        <span>0</span><span>{duration(length / 2)}</span><span>{duration(length)}</span>
      </div>
      {timeline.isCut && <p className="hint">Only the last {timeline.spans.length} steps are shown.</p>}
      <ol className="list">
        {timeline.spans.map((span) => (
          <li key={span.id}>
            <button type="button" aria-expanded={selected === span.id}
              onClick={() => setSelected(selected === span.id ? undefined : span.id)} data-kind={span.kind}>
              <span className="waterfall-name" style={{ paddingLeft: Math.min(span.depth, 6) * 12 }}>
                <Badge status={span.kind} />
                <span className="cut" title={span.name}>{span.name}</span>
                {span.tokens !== undefined && <span className="hint">{span.tokens} tokens</span>}
              </span>
              <span className="waterfall-track"><Bar span={span} percent={percent} /></span>
              <span className="waterfall-time"><SpanTime span={span} /></span>
            </button>
            {selected === span.id && <SpanDetails span={span} />}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Bar({ span, percent }: { span: Span; percent: (time: number) => number }) {
  const left = percent(span.start);
  const right = span.end === undefined ? 100 : percent(span.end);
  return (
    <>
      <span className={`waterfall-bar ${toneOf(span.status === "success" ? span.kind : span.status)}`}
        style={{ left: `${left}%`, width: `${right - left}%` }} />
      {span.status === "error" && <span className="waterfall-mark"
        style={left > 50 ? { right: `${100 - left}%` } : { left: `${right}%` }}>failed</span>}
    </>
  );
}

/** The time, four times a second while something runs. */
function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}

export function SpanTime({ span }: { span: Span }) {
  const now = useNow(span.end === undefined);
  return <span className="hint">{duration(Math.max(0, (span.end ?? now) - span.start))}</span>;
}

export function SpanDetails({ span, count = 1 }: { span: Span; count?: number }) {
  return (
    <section className="stack span-details" aria-label={`Details of ${span.name}`}>
      {count > 1 && <p className="hint">It ran {count} times; this is the last time.</p>}
      {span.error !== undefined && <p className="error-box">{span.error}</p>}
      {span.input !== undefined && <JsonSection label="Input" value={span.input} />}
      {span.output !== undefined && <JsonSection label="Output" value={span.output} />}
    </section>
  );
}

type SpanStatus = "running" | "success" | "error" | "interrupted";

export interface Span {
  id: string;
  kind: "node" | "model" | "tool";
  name: string;
  /** The names of the graphs and the node, as in the drawing: `author:drafting:write`. */
  path: string;
  depth: number;
  start: number;
  end?: number;
  status: SpanStatus;
  input?: unknown;
  output?: unknown;
  error?: string;
  tokens?: number;
}

interface Timeline {
  end?: number;
  /** There are more steps, which ran before these. */
  isCut?: boolean;
  spans: Span[];
}

type Mutable = Span & { parent?: Mutable; children: Mutable[]; namespace: string };

/** Build the timeline of a run from the events of its thread. The runs of a thread follow one another. */
function timelineOfEvents(events: ThreadEvent[], runId: string): Timeline {
  const timeline: Timeline = { spans: [] };
  const builder = new Builder();
  let isInside = false;
  for (const event of events) {
    const { namespace, timestamp, data } = event.params;
    if (event.method === "lifecycle" && namespace.length === 0) {
      const isOurs = event.event_id.startsWith(`synth:${runId}:`);
      if (data["event"] === "running") isInside = isOurs;
      else if (isOurs) timeline.end = timestamp;
    } else if (isInside) builder.add(event);
  }
  timeline.spans = builder.flatten();
  return timeline.end === undefined ? timeline : closedAt(timeline, timeline.end);
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
      const span = known ?? this.open({ id, kind: "model", name: "Model call", at: startIn(node) }, namespace, node);
      if (known === undefined) this.close(span, at, { output: message["tool_calls"] ?? message["content"] });
      if (typeof name === "string") span.name = name;
      if (typeof usage?.["total_tokens"] === "number") span.tokens = usage["total_tokens"];
    }
  }

  private addMessage(namespace: string[], at: number, data: Json) {
    const parent = this.openIn(namespace, "node");
    if (data["event"] === "message-start") {
      const metadata = data["metadata"] as Json | undefined;
      const name = typeof metadata?.["model"] === "string" ? metadata["model"] : "Model call";
      this.open({ id: String(data["id"]), kind: "model", name, at: parent ? startIn(parent) : at }, namespace, parent);
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

  flatten(): Span[] {
    const walk = (spans: Mutable[]): Span[] => spans.flatMap((span) => [span, ...walk(span.children)]);
    return walk(this.roots);
  }
}

/** The events of a model call begin with its first token, but the node waits for it since its last call ended. */
function startIn(node: Mutable): number {
  return Math.max(node.start, ...node.children.map((child) => child.end ?? 0));
}

function describeError(error: unknown): string {
  if (typeof error === "string") return error;
  const { error: name, message } = error as Json;
  return [name, message].filter((each) => typeof each === "string" && each !== "").join(": ") || JSON.stringify(error);
}

/** The steps of a run from its checkpoints, newest first as the server sends them: nodes of the root graph only. */
function timelineOfCheckpoints(states: ThreadState[]): Timeline {
  const spans = states.toReversed().flatMap((state, index, all): Span[] => {
    const next = all[index + 1]?.created_at;
    return state.tasks.filter((task) => task.name !== "__start__").map((task) => ({
      id: task.id, kind: "node", name: task.name, path: task.name, depth: 0, start: Date.parse(state.created_at ?? ""),
      ...(next ? { end: Date.parse(next) } : {}), output: task.result, input: state.values,
      ...(task.error ? { error: task.error } : {}),
      status: task.error ? "error" : task.interrupts.length > 0 ? "interrupted" : next ? "success" : "running",
    }));
  });
  return { spans, isCut: states.length === MAX_STATES, end: Math.max(0, ...states.map((state) => Date.parse(state.created_at ?? ""))) };
}

const MAX_STATES = 200;
const RETRY_MS = 1000;
const GRACE_MS = 1000;

/** What a run has done so far; it grows while the run executes. */
export function useTimeline(run: StoredRun | undefined): Timeline {
  const recorded = run !== undefined && isRecorded(run);
  const events = useThreadEvents(recorded ? run : undefined);
  const states = useQuery({
    queryKey: ["run-checkpoints", run?.run_id, run?.status],
    enabled: run !== undefined && !recorded,
    queryFn: () => langgraph().threads.getHistory(run?.thread_id ?? "", { limit: MAX_STATES, metadata: { run_id: run?.run_id } }),
    refetchInterval: run && isActive(run) ? 1000 : false,
  });
  if (run === undefined) return { spans: [] };
  if (recorded) return timelineOfEvents(events, run.run_id);
  const timeline = timelineOfCheckpoints(states.data ?? []);
  return isActive(run) ? timeline : closedAt(timeline, Math.max(timeline.end ?? 0, Date.parse(run.updated_at)));
}

/** A failed or cancelled run does not report the end of what it stopped. */
function closedAt({ spans, ...rest }: Timeline, end: number): Timeline {
  const statusOf = ({ status }: Span) => (status === "running" ? "interrupted" : status);
  return { ...rest, end, spans: spans.map((span) => ({ ...span, end: span.end ?? end, status: statusOf(span) })) };
}

function useThreadEvents(run: StoredRun | undefined): ThreadEvent[] {
  const queries = useQueryClient();
  const [read, setRead] = useState<{ runId: string; events: ThreadEvent[] }>({ runId: "", events: [] });
  const threadId = run?.thread_id;
  const runId = run?.run_id;
  useEffect(() => {
    if (threadId === undefined || runId === undefined) return;
    const stop = new AbortController();
    const isStopped = () => stop.signal.aborted;
    void (async () => {
      const events: ThreadEvent[] = [];
      let isPlanned = false;
      const show = () => {
        isPlanned = false;
        setRead({ runId, events: [...events] });
      };
      while (!isStopped()) {
        try {
          for await (const event of readThreadEvents(threadId, events.at(-1)?.seq ?? 0, stop.signal)) {
            events.push(event);
            if (!isPlanned) requestAnimationFrame(show);
            isPlanned = true;
            if (isEndOf(event, runId)) {
              void queries.invalidateQueries({ queryKey: ["run", threadId, runId] });
              // The result of an interrupted node follows.
              setTimeout(() => stop.abort(), GRACE_MS);
            }
          }
        } catch (error) {
          // Otherwise the connection was cut.
          if (isStopped() || errorStatus(error) !== undefined) return;
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    })();
    return () => stop.abort();
  }, [threadId, runId, queries]);
  return read.runId === runId ? read.events : [];
}

function isEndOf(event: ThreadEvent, runId: string): boolean {
  return event.event_id.startsWith(`synth:${runId}:lc||`) && event.params.data["event"] !== "running";
}
