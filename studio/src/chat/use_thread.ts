/** What the page knows of a thread beside the stream: its checkpoints and branches, runs of others, answers that were cut off. */
import type { Client, ThreadState } from "@langchain/langgraph-sdk";
import { STREAM_CONTROLLER, type UseStreamReturn } from "@langchain/react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { isObject, type ThreadInfo } from "../client";
import { callsOf, type ChatMessage, isAi, isAnswered, type Partial, textOf } from "./messages";

type Stream = UseStreamReturn;

const PAGE = 50;
const MAX_CHECKPOINTS = 500;

/** The checkpoints of a thread, newest first; only new ones are loaded again. `findFork` is `forkPoint`, but loads older ones. */
export function useCheckpoints(client: Client, threadId: string | undefined) {
  const queries = useQueryClient();
  const queryKey = ["checkpoints", threadId];
  const readBefore = async (before: string | undefined) => {
    const options = before === undefined ? {} : { before: { configurable: { checkpoint_id: before } } };
    return (await client.threads.getHistory(threadId ?? "", { limit: PAGE, ...options })).map(readCheckpoint);
  };
  const query = useQuery({
    queryKey,
    enabled: threadId !== undefined,
    queryFn: async () => {
      const known = queries.getQueryData<Checkpoint[]>(queryKey) ?? [];
      const knownIds = new Set(known.map((checkpoint) => checkpoint.id));
      const fresh: Checkpoint[] = [];
      while (fresh.length < MAX_CHECKPOINTS) {
        const page = await readBefore(fresh.at(-1)?.id);
        fresh.push(...page.filter((checkpoint) => !knownIds.has(checkpoint.id)));
        if (page.length < PAGE || page.some((checkpoint) => knownIds.has(checkpoint.id))) break;
      }
      return [...fresh, ...known];
    },
  });
  const checkpoints = query.data ?? NONE;
  const findFork = async (tip: string | undefined, messageId: string): Promise<ForkPoint> => {
    for (let known = checkpoints; ;) {
      const found = forkPoint(lineageOf(known, tip), messageId);
      if (found) return found;
      const older = await readBefore(known.at(-1)?.id);
      if (older.length === 0) throw new Error("The thread has no checkpoint from before this message.");
      known = [...known, ...older];
      queries.setQueryData(queryKey, known);
    }
  };
  return { checkpoints, findFork };
}

const NONE: Checkpoint[] = [];

/** Read a thread again when another client ran it, and join a run that the stream does not know. */
export function useForeignRuns(stream: Stream, info: ThreadInfo | undefined, isBusy: boolean): void {
  const queries = useQueryClient();
  const controller = stream[STREAM_CONTROLLER];
  const [seen] = useState(() => new Map<string, string>());
  useEffect(() => {
    if (info === undefined) return;
    const version = `${info.status} ${info.updated_at}`;
    const before = seen.get(info.thread_id);
    if (!isBusy || before === undefined) seen.set(info.thread_id, version);
    if (isBusy || (info.status !== "busy" && (before === undefined || before === version))) return;
    // A run of the older endpoints sends the stream no event when it ends.
    if (info.status !== "busy") controller.rootStore.setState((state) => ({ ...state, isLoading: false, error: undefined }));
    void controller.hydrate();
    void queries.invalidateQueries({ queryKey: ["checkpoints", info.thread_id] });
  }, [info, isBusy, controller, queries, seen]);
}

/** Answers that ended before they were complete: the stream forgets them when their run ends. */
export function usePartials(stream: Stream): Partial[] {
  const [partials, setPartials] = useState<Partial[]>([]);
  const store = stream[STREAM_CONTROLLER].rootStore;
  useEffect(() => {
    let known: Set<string | undefined> | undefined;
    let last: Partial | undefined;
    return store.subscribe(() => {
      const { isLoading, interrupts, threadId, ...rest } = store.getSnapshot();
      const messages = rest.messages as unknown as ChatMessage[];
      if (isLoading) {
        known ??= new Set(messages.map((message) => message.id));
        const message = messages.at(-1);
        const isNew = message !== undefined && isAi(message) && !known.has(message.id);
        const isShown = isNew && (textOf(message.content) !== "" || callsOf(message).length > 0);
        if (isShown) last = { threadId, afterId: messages.at(-2)?.id, message };
        return;
      }
      const cut = last;
      known = last = undefined;
      const isLost = cut?.threadId === threadId && !messages.some((message) => message.id === cut.message.id);
      if (cut && isLost && interrupts.length === 0 && !isAnswered(messages)) setPartials((before) => [...before, cut]);
    });
  }, [store]);
  return partials;
}

/**
 * A browser opens six connections to a server over HTTP/1.1, and a streaming tab holds two: the fourth tab would not even load.
 * WebSockets have no such limit, but carry no token, and a proxy may refuse them: then it is server-sent events.
 */
export function useTransport(token: string) {
  const [isRefused, setRefused] = useState(false);
  return useMemo(() => {
    if (token !== "" || isRefused) return { transport: "sse" as const };
    // A later error is an outage: another transport would only forget the messages.
    let hasOpened = false;
    const webSocketFactory = (address: string) => {
      const socket = new WebSocket(address);
      socket.addEventListener("error", () => setRefused(!hasOpened));
      socket.addEventListener("open", () => { hasOpened = true; });
      return socket;
    };
    return { transport: "websocket" as const, webSocketFactory };
  }, [token, isRefused]);
}

export interface Checkpoint {
  id: string;
  parentId: string | undefined;
  isInput: boolean;
  messageIds: string[];
  /** The values of a graph whose state is no object: the stream leaves them out. */
  raw?: unknown;
}

/** The checkpoint from which a run has to start to replace a message, and the messages before it that came with it. */
interface ForkPoint {
  checkpoint: string;
  missing: string[];
}

/** The versions of one message: the newest checkpoint of each, oldest version first, and which one is shown. */
export interface Versions {
  tips: string[];
  shown: number;
}

function readCheckpoint(state: ThreadState): Checkpoint {
  const messages = (state.values as { messages?: ChatMessage[] } | null)?.messages;
  return {
    id: state.checkpoint.checkpoint_id ?? "",
    parentId: state.parent_checkpoint?.checkpoint_id ?? undefined,
    isInput: state.metadata?.source === "input",
    messageIds: Array.isArray(messages) ? messages.map((message) => message.id ?? "") : [],
    ...(isObject(state.values) ? {} : { raw: state.values }),
  };
}

/** A checkpoint and those that it came from, newest first. */
export function lineageOf(checkpoints: Checkpoint[], tip: string | undefined): Checkpoint[] {
  const byId = new Map(checkpoints.map((checkpoint) => [checkpoint.id, checkpoint]));
  const lineage: Checkpoint[] = [];
  for (let at = byId.get(tip ?? ""); at; at = byId.get(at.parentId ?? "")) lineage.push(at);
  return lineage;
}

/** Where a message is replaced; undefined if that is not loaded. */
export function forkPoint(lineage: Checkpoint[], messageId: string): ForkPoint | undefined {
  const index = lineage.findIndex((checkpoint) => !checkpoint.messageIds.includes(messageId));
  const before = lineage[index];
  if (!before) return undefined;
  const after = lineage[index - 1]?.messageIds ?? [];
  const missing = after.slice(0, Math.max(0, after.indexOf(messageId))).filter((id) => !before.messageIds.includes(id));
  // The checkpoint of a run's input already has the old message waiting: its parent has not.
  return { checkpoint: (before.isInput ? before.parentId : undefined) ?? before.id, missing };
}

/** The versions of each message on the shown path that has more than one. */
export function versionsOn(path: string[], lineage: Checkpoint[], checkpoints: Checkpoint[]): Map<string, Versions> {
  const ancestors = new Set(lineage.map((checkpoint) => checkpoint.id));
  const tipsAt = new Map<number, Map<string, string>>();
  const since = new Map<string, string>();
  // Ids of checkpoints are ordered by time; the list is newest first.
  for (const { id, messageIds } of checkpoints) {
    const differs = messageIds.findIndex((messageId, index) => messageId !== path[index]);
    for (const messageId of messageIds.slice(0, differs + 1 || undefined)) since.set(messageId, id);
    if (differs < 0 || differs >= path.length || ancestors.has(id)) continue;
    const tips = tipsAt.get(differs) ?? new Map<string, string>();
    const version = messageIds[differs] ?? "";
    if (!tips.has(version)) tips.set(version, id);
    tipsAt.set(differs, tips);
  }
  const versions = new Map<string, Versions>();
  for (const [index, tips] of tipsAt) {
    const shown = path[index] ?? "";
    const all = [...tips, [shown, lineage[0]?.id ?? ""] as const];
    const ordered = all.sort(([a], [b]) => ((since.get(a) ?? "~") < (since.get(b) ?? "~") ? -1 : 1));
    versions.set(shown, { tips: ordered.map(([, tip]) => tip), shown: ordered.findIndex(([id]) => id === shown) });
  }
  return versions;
}
