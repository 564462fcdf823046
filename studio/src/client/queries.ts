/** What several pages read from the server, and changes on it. */
import type { Metadata } from "@langchain/langgraph-sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { flushSync } from "react-dom";

import { isActive, type StoredRun } from "./protocol";
import { ApiError, langgraph } from "./server";

const MAX_ASSISTANTS = 1000;

/** A change on the server; afterwards all queries whose keys begin with one of `changed` load again. */
export function useChange<Result, Input = void>(
  change: (input: Input) => Promise<Result>, changed: string[], onDone?: (result: Result) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    // The page of a deleted item must be gone before its queries load again.
    onSuccess: (result) => flushSync(() => onDone?.(result)),
    onSettled: () => Promise.all(changed.map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function useAssistants() {
  return useQuery({
    queryKey: ["assistants", "all"],
    queryFn: () => langgraph().assistants.search({ limit: MAX_ASSISTANTS, sortBy: "name", sortOrder: "asc" }),
  });
}

/** The name of an assistant by its id; the id itself while the names are unknown. */
export function useAssistantNames(): (id: string) => string {
  const { data } = useAssistants();
  return (id) => data?.find((each) => each.assistant_id === id)?.name ?? id;
}

export function useSchemas(assistantId: string | undefined) {
  return useQuery({
    queryKey: ["schemas", assistantId],
    queryFn: () => langgraph().assistants.getSchemas(assistantId ?? ""),
    enabled: assistantId !== undefined,
    staleTime: 60_000,
  });
}

export interface ThreadInfo {
  thread_id: string;
  status: string;
  updated_at: string;
  assistantId: string | undefined;
  /** Why the newest run failed. */
  problem: string | undefined;
}

/** Read a thread without its values, which may be large. */
async function readThread(threadId: string): Promise<ThreadInfo> {
  const { threads } = langgraph();
  const [thread] = await threads.search({ ids: [threadId], select: ["thread_id", "status", "updated_at", "metadata"] });
  if (!thread) throw new ApiError(404, `Thread ${threadId} does not exist. It may have been deleted.`);
  const { status, updated_at, metadata } = thread;
  const assistantId = (metadata as { assistant_id?: string } | null)?.assistant_id;
  const info = { thread_id: threadId, status, updated_at, assistantId };
  if (status !== "error") return { ...info, problem: undefined };
  const { error } = (await threads.get(threadId)) as { error?: { error: string; message: string } | null };
  return { ...info, problem: error ? `${error.error}: ${error.message}` : undefined };
}

/** The server's view of a thread, asked again and again: other tabs and clients may run it, too. */
export function useThread(threadId: string | undefined) {
  return useQuery({
    queryKey: ["thread", threadId],
    queryFn: () => readThread(threadId ?? ""),
    enabled: threadId !== undefined,
    refetchInterval: ({ state }) => (state.data?.status === "busy" ? 1000 : 3000),
  });
}

export interface ListedThread {
  id: string;
  title: string;
  graph: string | undefined;
  status: string;
  updated: string;
}

/** The threads that changed last, with the beginning of their first message as their title. */
export function useThreads(limit: number, metadata: Metadata = {}) {
  return useQuery({
    queryKey: ["threads", limit, metadata],
    refetchInterval: 5000,
    placeholderData: (before) => before,
    queryFn: async () => {
      const found = await langgraph().threads.search({
        limit, metadata, sortBy: "updated_at", sortOrder: "desc",
        select: ["thread_id", "status", "updated_at", "metadata"],
        extract: { first: "values.messages[0].content" },
      });
      return found.map((thread): ListedThread => {
        const { graph_id: graph } = (thread.metadata ?? {}) as { graph_id?: string };
        const title = titleOf(thread.extracted?.["first"], graph);
        return { id: thread.thread_id, title, graph, status: thread.status, updated: thread.updated_at };
      });
    },
  });
}

function titleOf(first: unknown, graph: string | undefined): string {
  const blocks = Array.isArray(first) ? (first as { text?: string }[]) : [{ text: typeof first === "string" ? first : "" }];
  const text = blocks.map((block) => block.text ?? "").join("").trim().slice(0, 120);
  return text || (Array.isArray(first) ? "Files" : graph ? `Run of ${graph}` : "Empty thread");
}

export function useRun(threadId: string | undefined, runId: string | undefined) {
  return useQuery({
    queryKey: ["run", threadId, runId],
    enabled: threadId !== undefined && runId !== undefined,
    queryFn: () => langgraph().runs.get(threadId ?? "", runId ?? "") as Promise<StoredRun>,
    refetchInterval: ({ state }) => (state.data && isActive(state.data) ? 1000 : false),
  });
}

export function useLastRun(threadId: string | undefined) {
  return useQuery({
    queryKey: ["run", threadId, "last"],
    enabled: threadId !== undefined,
    queryFn: async () => (await langgraph().runs.list(threadId ?? "", { limit: 1 }))[0] ?? null,
  });
}
