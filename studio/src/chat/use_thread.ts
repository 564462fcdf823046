/** What the page knows of a thread beside the stream: its checkpoints, runs of others, answers that were cut off. */
import { STREAM_CONTROLLER, type UseStreamReturn } from "@langchain/react";
import type { Client } from "@langchain/langgraph-sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import type { ThreadInfo } from "../client/queries";
import { type Checkpoint, readCheckpoint } from "./branches";
import { callsOf, type ChatMessage, textOf } from "./messages";
import { isAi, isAnswered, type Partial } from "./transcript";

type Stream = UseStreamReturn;

const PAGE = 50;
const MAX_CHECKPOINTS = 500;

/** The checkpoints of a thread, newest first; only new ones are loaded again. */
export function useCheckpoints(client: Client, threadId: string | undefined): Checkpoint[] {
  const queries = useQueryClient();
  const queryKey = ["checkpoints", threadId];
  const query = useQuery({
    queryKey,
    enabled: threadId !== undefined,
    queryFn: async () => {
      const known = queries.getQueryData<Checkpoint[]>(queryKey) ?? [];
      const knownIds = new Set(known.map((checkpoint) => checkpoint.id));
      const fresh: Checkpoint[] = [];
      while (fresh.length < MAX_CHECKPOINTS) {
        const before = fresh.at(-1)?.id;
        const options = before === undefined ? {} : { before: { configurable: { checkpoint_id: before } } };
        const page = (await client.threads.getHistory(threadId ?? "", { limit: PAGE, ...options })).map(readCheckpoint);
        fresh.push(...page.filter((checkpoint) => !knownIds.has(checkpoint.id)));
        if (page.length < PAGE || page.some((checkpoint) => knownIds.has(checkpoint.id))) break;
      }
      return [...fresh, ...known];
    },
  });
  return query.data ?? NONE;
}

const NONE: Checkpoint[] = [];

/** Read a thread again when another client ran it, and join a run that the stream does not know. */
export function useForeignRuns(stream: Stream, info: ThreadInfo | undefined, isOwn: boolean): void {
  const queries = useQueryClient();
  const controller = stream[STREAM_CONTROLLER];
  const [seen] = useState(() => new Map<string, string>());
  const { isLoading } = stream;
  useEffect(() => {
    if (info === undefined || isLoading || isOwn) return;
    const version = `${info.status} ${info.updated_at}`;
    const before = seen.get(info.thread_id);
    seen.set(info.thread_id, version);
    if (info.status !== "busy" && (before === undefined || before === version)) return;
    void controller.hydrate();
    void queries.invalidateQueries({ queryKey: ["checkpoints", info.thread_id] });
  }, [info, isLoading, isOwn, controller, queries, seen]);
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
