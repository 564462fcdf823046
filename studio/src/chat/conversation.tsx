/** One thread with one assistant: its messages, its running and waiting runs, and the field for the next message. */
import type { Assistant, StreamMode } from "@langchain/langgraph-sdk";
import { STREAM_CONTROLLER, useStream } from "@langchain/react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { ChatContext } from "../apps/app";
import { isActive, isObject, type Json, langgraph, readToken, useChange, useThread } from "../client";
import { Button, Empty, ErrorBox, JsonView, Loading } from "../ui";
import type { Content } from "../ui/content";
import {
  lineageOf, useCheckpoints, useForeignRuns, usePartials, useTransport, type Versions, versionsOn,
} from "./use_thread";
import { isChat, messageInput, RunInput } from "./composer";
import { InterruptPanel } from "./interrupts";
import { type MessageActions, MessageView } from "./message_view";
import { type ChatMessage, type Fork, joinFork, rowsOf } from "./messages";

const now = () => Date.now();

/** What the stream shows of a run that it did not start. */
const STREAM_MODES = ["values", "messages", "tasks", "checkpoints"] satisfies StreamMode[];

/** For this long after a run was started here, an answer about the thread's status may be older than the run. */
const STATUS_LAG_MS = 1500;
const MAX_ACTIVE_RUNS = 100;

interface Attempt {
  threadId: string | undefined;
  input: Json;
  from: ForkPoint | undefined;
}

interface ForkPoint {
  checkpoint: string;
  base: ChatMessage[];
}

/** Inputs by thread for which the server has not confirmed a run: they survive a new token and a look at another page. */
const unconfirmed = new Map<string | undefined, Attempt>();

function messagesIn(input: Json | undefined): ChatMessage[] {
  return Array.isArray(input?.["messages"]) ? (input["messages"] as ChatMessage[]) : [];
}

interface ConversationProps {
  threadId: string | undefined;
  assistant: Assistant;
  inputSchema: object;
  /** The checkpoint of another branch that is shown instead of the newest one. */
  viewed: string | undefined;
  onThread: (threadId: string) => void;
  onView: (checkpoint: string | undefined) => void;
}

export function Conversation({ threadId, assistant, inputSchema, viewed, onThread, onView }: ConversationProps) {
  const { assistant_id: assistantId, name } = assistant;
  const queries = useQueryClient();
  const token = readToken();
  const [unsaved, setUnsaved] = useState<string>();
  const saved = threadId === unsaved ? undefined : threadId;
  const info = useThread(saved);
  // After an outage of the server a new client begins with what is stored: the streams of the old one are dead.
  const [outages, setOutages] = useState(0);
  if (info.isSuccess && info.errorUpdateCount !== outages) setOutages(info.errorUpdateCount);
  const client = useMemo(() => ({ token, outages, sdk: langgraph() }), [token, outages]).sdk;
  const [startedAt, setStartedAt] = useState(0);
  const [fork, setFork] = useState<Fork>();
  const [sent, setSent] = useState(0);
  const attempt = useRef<Attempt>(undefined);
  const own = useRef<{ client: unknown; runId: string }>(undefined);
  const stream = useStream({
    client,
    ...useTransport(token),
    assistantId,
    threadId: threadId ?? null,
    onThreadId: (id) => {
      if (attempt.current) unconfirmed.set((attempt.current.threadId = id), attempt.current);
      setUnsaved(id);
      onThread(id);
    },
    onCreated: ({ runId }) => {
      own.current = { client, runId };
      unconfirmed.delete(attempt.current?.threadId);
      setUnsaved(undefined);
      setSent((count) => count + 1);
    },
  });
  const { checkpoints, findFork } = useCheckpoints(client, saved);
  const action = useChange((act: () => Promise<void>) => act(), []);
  const partials = usePartials(stream);
  const isFresh = info.dataUpdatedAt > startedAt + STATUS_LAG_MS;
  const status = info.data?.status;
  // A checkpoint with open nodes looks like a running one to the stream, also after its run was stopped or failed.
  const isRunning = stream.isLoading && (!isFresh || status === undefined || status === "busy");
  useForeignRuns(stream, info.data, isRunning || !isFresh);

  useEffect(() => {
    if (isRunning) return;
    for (const key of ["thread", "checkpoints", "threads"]) void queries.invalidateQueries({ queryKey: [key] });
  }, [isRunning, queries]);

  const other = useQuery({
    queryKey: ["branch", threadId, viewed],
    queryFn: () => client.threads.getState<Json>(threadId ?? "", viewed ?? ""),
    enabled: threadId !== undefined && viewed !== undefined,
    staleTime: Infinity,
  });
  const isOther = viewed !== undefined && fork === undefined;
  const values = isOther ? (other.data?.values ?? {}) : ((checkpoints[0]?.raw ?? stream.values) as Json);
  const streamed = stream.messages as unknown as ChatMessage[];
  const stored = isOther
    ? ((values["messages"] ?? []) as ChatMessage[])
    : joinFork(streamed, fork?.threadId === threadId ? fork : undefined);
  const failed = isRunning ? undefined : unconfirmed.get(threadId);
  const lost = messagesIn(failed?.input).filter(({ id }) => id !== undefined && !stored.some((message) => message.id === id));
  const messages = lost.length === 0 ? stored : [...stored, ...lost];
  const path = messages.map((message) => message.id ?? "").join("\n");
  const tip = viewed ?? checkpoints[0]?.id;
  const lineage = useMemo(() => lineageOf(checkpoints, tip), [checkpoints, tip]);
  const versions = useMemo(() => versionsOn(path.split("\n"), lineage, checkpoints), [path, lineage, checkpoints]);
  const isContinued = checkpoints.some((checkpoint) => checkpoint.parentId === viewed);
  const asked = isContinued ? [] : (other.data?.tasks ?? []).flatMap((task) => task.interrupts);
  const interrupts = isRunning ? [] : isOther ? asked : stream.interrupts;
  const waiting = interrupts.map((each, index) => ({ id: each.id ?? String(index), value: each.value }));
  const openCall = isRunning ? "running" : waiting.length > 0 ? "pending" : "no result";
  const rows = rowsOf(messages, partials.filter((partial) => partial.threadId === threadId), openCall);

  const run = async (input: Json | null, from?: ForkPoint) => {
    attempt.current = input === null ? undefined : { threadId, input, from };
    if (attempt.current && threadId !== undefined) unconfirmed.set(threadId, attempt.current);
    setStartedAt(now());
    setSent((count) => count + 1);
    if (from) setFork({ threadId: threadId ?? null, base: from.base, hidden: new Set(streamed.map((message) => message.id)) });
    if (viewed !== undefined) onView(undefined);
    await stream.submit(input, from ? { forkFrom: from.checkpoint } : undefined).catch(() => undefined);
    setFork(undefined);
  };
  const send = (written: Json) => {
    const input = lost.length === 0 ? written : { ...written, messages: [...lost, ...messagesIn(written)] };
    // The protocol takes the input of a waiting thread for an answer, unless the run starts from a named checkpoint.
    const fork = (checkpoint: string) => void run(input, { checkpoint, base: messages });
    if (viewed !== undefined) fork(viewed);
    else if (waiting.length === 0) void run(input);
    else action.mutate(async () => fork((await client.threads.getState(threadId ?? "")).checkpoint.checkpoint_id ?? ""));
  };
  const answer = (answers: Json) => {
    setStartedAt(now());
    setSent((count) => count + 1);
    if (viewed === undefined) void stream.respondAll(answers).catch(() => undefined);
    else action.mutate(() => resumeBranch(viewed, answers));
  };
  /** The protocol answers the newest state only; a run of the older API resumes any checkpoint, and the stream joins it. */
  const resumeBranch = async (checkpointId: string, resume: Json) => {
    await client.runs.create(threadId ?? "", assistantId, {
      checkpointId, command: { resume }, streamMode: STREAM_MODES, streamSubgraphs: true, streamResumable: true,
    });
    onView(undefined);
    await stream[STREAM_CONTROLLER].hydrate();
    await queries.invalidateQueries({ queryKey: ["thread"] });
  };
  const stop = async () => {
    await stream.stop();
    // The stream knows only a run that it started itself.
    const found = await client.runs.list(threadId ?? "", { limit: MAX_ACTIVE_RUNS });
    const known = own.current?.client === client ? own.current.runId : undefined;
    const runs = found.filter((each) => isActive(each) && each.run_id !== known);
    if (runs.length > 0) await client.runs.cancelMany({ threadId: threadId ?? "", runIds: runs.map((each) => each.run_id) });
  };

  const replace = async (message: ChatMessage, content: Content, id: string) => {
    const index = messages.indexOf(message);
    const { checkpoint, missing } = await findFork(tip, message.id ?? "");
    const before = messages.slice(0, index);
    const input = [...before.filter((each) => missing.includes(each.id ?? "")), ...messageInput(content, id).messages];
    void run({ messages: input }, { checkpoint, base: id === message.id ? messages.slice(0, index + 1) : before });
  };
  const regenerate = (answered: ChatMessage) => {
    const at = rows.findIndex((row) => row.message === answered);
    const human = rows.slice(0, at).findLast((row) => row.message.type === "human")?.message;
    if (human) action.mutate(() => replace(human, human.content, human.id ?? ""));
  };
  const actions = useRef<MessageActions>(null);
  useEffect(() => {
    actions.current = {
      edit: (message, content) => action.mutateAsync(() => replace(message, content, crypto.randomUUID())),
      regenerate,
      showVersion: (checkpoint) => onView(checkpoint === checkpoints[0]?.id ? undefined : checkpoint),
    };
  });

  const hasMessages = isChat(inputSchema);
  const isUnsent = failed !== undefined && (stream.error !== undefined || lost.length > 0 || messagesIn(failed.input).length === 0);
  const problem = isFresh && status === "error" && info.data?.problem ? new Error(info.data.problem) : undefined;
  const failure = isUnsent ? (stream.error ?? new Error("The server has not received the last input."))
    : (info.error ?? (isRunning ? undefined : (stream.error ?? problem)));
  const rest = isObject(values)
    ? Object.fromEntries(Object.entries(values).filter(([key]) => key !== "messages" && !key.startsWith("__"))) : values;
  const hasState = !hasMessages && JSON.stringify(rest) !== "{}";
  return (
    <>
      <ChatContext value={{ send: (text) => send(messageInput(text)), isBusy: isRunning }}>
      <ScrollArea label="Conversation" resetKey={`${threadId ?? ""} ${sent}`}>
        {stream.isThreadLoading && rows.length === 0 && !hasState && <Loading what="the thread" />}
        {isOther && other.isError && <ErrorBox error={other.error} onRetry={() => void other.refetch()} />}
        {!stream.isThreadLoading && rows.length === 0 && !hasState && !isRunning && failure === undefined && (
          <Empty title={name}>
            <p>
              {hasMessages ? "Write a message to start. Files can be dropped on the field below."
                : "Fill in the input below to start a run."}
            </p>
          </Empty>
        )}
        {rows.map(({ turn, ...row }, index) => (
          <MessageView key={row.message.id ?? index} {...row} versions={versionsFor(row.message, turn, versions)}
            isStreaming={isRunning && index === rows.length - 1 && !row.isPartial} canFork={!isRunning && lineage.length > 0} actions={actions} />
        ))}
        {hasState && <JsonView value={rest} label="State of the thread" />}
        {(isRunning || action.isPending) && <p className="muted" role="status"><span className="spinner" aria-hidden="true" /> Working…</p>}
        {!isOther && failure !== undefined && (
          <div className="stack">
            <ErrorBox error={failure} />
            {(isUnsent || (!info.isError && waiting.length === 0)) && (
              <Button onClick={() => void run(failed?.input ?? null, failed?.from)}>Retry</Button>
            )}
          </div>
        )}
        <ErrorBox error={action.error} />
        {waiting.length > 0 && (
          <InterruptPanel key={waiting.map((each) => each.id).join()} waiting={waiting} isBusy={isRunning || action.isPending} onAnswer={answer} />
        )}
      </ScrollArea>
      </ChatContext>
      <footer className="chat-input">
        {isOther && (
          <p className="hint row" role="status">
            This is an earlier branch. A message continues it. <Button kind="quiet" onClick={() => onView(undefined)}>Show the newest</Button>
          </p>
        )}
        <RunInput key={assistantId} isFocused schema={inputSchema} isRunning={isRunning} onRun={send}
          onStop={() => void stop().catch(() => undefined)} isBlocked={stream.isThreadLoading && rows.length === 0}
          placeholder={waiting.length > 0 ? "Answer above, or write a message instead" : `Message ${name}`} />
      </footer>
    </>
  );
}

/** The versions of an answer differ from its first message on; the switch is at its end. */
function versionsFor(message: ChatMessage, turn: string[], versions: Map<string, Versions>): Versions | undefined {
  const ids = message.type === "human" ? [message.id ?? ""] : turn;
  return ids.map((id) => versions.get(id)).find((found) => found !== undefined);
}

const NEAR_END = 24;

interface ScrollAreaProps {
  label: string;
  /** A change brings the end into view, for example after a message was sent. */
  resetKey: unknown;
  children: React.ReactNode;
}

function ScrollArea({ label, resetKey, children }: ScrollAreaProps) {
  const area = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isAway, setAway] = useState(false);
  useEffect(() => {
    const element = area.current;
    if (!element || !content.current) return;
    let top = element.scrollTop;
    const follow = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    const observe = () => {
      const distance = element.scrollHeight - element.scrollTop - element.clientHeight;
      if (distance < NEAR_END) follows.current = true;
      else if (element.scrollTop < top) follows.current = false;
      top = element.scrollTop;
      setAway(!follows.current);
    };
    follow.observe(content.current);
    follow.observe(element);
    element.addEventListener("scroll", observe, { passive: true });
    return () => {
      follow.disconnect();
      element.removeEventListener("scroll", observe);
    };
  }, []);
  const toEnd = () => area.current?.scrollTo({ top: area.current.scrollHeight });
  useEffect(() => {
    follows.current = true;
    toEnd();
  }, [resetKey]);
  return (
    <div className="scroll-frame">
      <div ref={area} className="scroll-area" tabIndex={0} role="region" aria-label={label}>
        <div ref={content} className="transcript">{children}</div>
      </div>
      {isAway && <Button className="to-end" onClick={toEnd}>Jump to the end</Button>}
    </div>
  );
}
