/** Runs of all threads. The API lists the runs of one thread, so a search of threads says where to look. */
import type { Thread } from "@langchain/langgraph-sdk";
import { useQueries, useQuery } from "@tanstack/react-query";

import type { StoredRun } from "../client/protocol";
import { langgraph } from "../client/server";

const REFRESH_MS = 2000;
const RUNS_PER_THREAD = 20;

export interface RunList {
  runs: StoredRun[];
  isLoading: boolean;
  error: unknown;
  hasMore: boolean;
  retry: () => void;
}

/**
 * The runs of the `limit` threads that changed last, and of all threads with work to do.
 * The runs of a thread are read again when the thread has changed.
 */
export function useRuns(limit: number): RunList {
  const threads = useQuery({
    queryKey: ["threads", "with-runs", limit], refetchInterval: REFRESH_MS,
    queryFn: async () => {
      const select = ["thread_id", "updated_at", "status"] as const;
      const [recent, busy] = await Promise.all([
        langgraph().threads.search({ limit, sortBy: "updated_at", sortOrder: "desc", select: [...select] }),
        langgraph().threads.search({ limit: 100, status: "busy", select: [...select] }),
      ]);
      const all = new Map<string, Thread>([...busy, ...recent].map((thread) => [thread.thread_id, thread]));
      return { threads: [...all.values()], hasMore: recent.length === limit };
    },
  });
  const lists = useQueries({
    queries: (threads.data?.threads ?? []).map(({ thread_id, updated_at, status }) => ({
      queryKey: ["runs", thread_id, updated_at, status], staleTime: status === "busy" ? 0 : Infinity,
      refetchInterval: status === "busy" ? REFRESH_MS : (false as const),
      queryFn: () => langgraph().runs.list(thread_id, { limit: RUNS_PER_THREAD }) as Promise<StoredRun[]>,
      placeholderData: (before: StoredRun[] | undefined) => before,
    })),
  });
  return {
    runs: lists.flatMap((list) => list.data ?? []).sort((one, other) => other.created_at.localeCompare(one.created_at)),
    isLoading: threads.isPending || lists.some((list) => list.isPending),
    error: threads.error, hasMore: threads.data?.hasMore ?? false, retry: () => void threads.refetch(),
  };
}

/** How long a run took, its time in the queue included; until now if it has not ended. */
export function elapsed(run: StoredRun, isOver: boolean): number {
  return Math.max(0, (isOver ? Date.parse(run.updated_at) : Date.now()) - Date.parse(run.created_at));
}

export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
}

/** The tokens that the server writes into the metadata of a run. */
export function usageOf(run: StoredRun): Usage | undefined {
  return (run.metadata as { usage?: Usage } | null)?.usage;
}
