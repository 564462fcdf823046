import type { ThreadState } from "@langchain/langgraph-sdk";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";

import { langgraph } from "../client/server";

const PAGE = 40;

export function useThread(threadId: string) {
  return useQuery({
    queryKey: ["thread", threadId], queryFn: () => langgraph().threads.get(threadId),
    refetchInterval: ({ state }) => (state.data?.status === "busy" ? 1000 : 5000),
  });
}

/** The checkpoints of a thread, newest first; `changedAt` is the time of the thread's last change. */
export function useHistory(threadId: string, changedAt: string | undefined) {
  return useInfiniteQuery({
    queryKey: ["history", threadId, changedAt],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => langgraph().threads.getHistory(threadId, {
      limit: PAGE, ...(pageParam === undefined ? {} : { before: { configurable: { checkpoint_id: pageParam } } }),
    }),
    getNextPageParam: (page) => (page.length < PAGE ? undefined : page.at(-1)?.checkpoint.checkpoint_id ?? undefined),
    placeholderData: (before) => before,
    enabled: changedAt !== undefined,
  });
}

export function idOf(state: ThreadState): string {
  return state.checkpoint.checkpoint_id ?? "";
}

export interface StateMetadata {
  source?: string;
  step?: number;
  run_id?: string;
  assistant_id?: string;
  graph_id?: string;
}

export function metadataOf(state: ThreadState): StateMetadata {
  return state.metadata ?? {};
}

/** "Step 3 (loop)": how a checkpoint is named in lists. */
export function nameOf(state: ThreadState): string {
  const { step, source } = metadataOf(state);
  return `Step ${step ?? "?"} (${source ?? "unknown"})`;
}
