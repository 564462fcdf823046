/** The server that serves this page: requests with the caller's token, errors as one class, what several pages read, changes. */
import { type Assistant, Client, type Metadata, type Run } from "@langchain/langgraph-sdk";
import { BytesLineDecoder, SSEDecoder } from "@langchain/langgraph-sdk/utils";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { flushSync } from "react-dom";

const TOKEN_KEY = "toolweave-studio-token";
/** The folder above `/studio/`, so that a prefix of a reverse proxy stays in front. No slash at the end. */
const serverUrl = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** A response that is not a success; `message` is the server's own explanation. */
class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export function readToken(): string {
  return sessionStorage.getItem(TOKEN_KEY) ?? "";
}

export function storeToken(token: string): void {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/** Headers in which authentication handlers look for a token. */
function authHeaders(): Record<string, string> {
  const token = readToken();
  return token === "" ? {} : { authorization: `Bearer ${token}`, "x-api-key": token };
}

/** The LangGraph SDK's client with the current token. */
export function langgraph(): Client {
  return new Client({ apiUrl: serverUrl, apiKey: null, defaultHeaders: authHeaders(), callerOptions: { maxRetries: 0 } });
}

type RequestOptions = RequestInit & { json?: unknown };

/** Send a request to a route that the SDK does not know; with JSON it is a POST. */
async function send(path: string, { json, ...init }: RequestOptions = {}): Promise<Response> {
  const body = json === undefined ? {} : { method: "POST", body: JSON.stringify(json) };
  const headers = { ...authHeaders(), "content-type": "application/json" };
  const response = await fetch(`${serverUrl}${path}`, { ...body, ...init, headers });
  if (!response.ok) throw new ApiError(response.status, readDetail(await response.text()) || response.statusText);
  return response;
}

/** Send a request and read the JSON of its response. */
export async function request<T>(path: string, options?: RequestOptions): Promise<T> {
  const text = await (await send(path, options)).text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

/** The readable part of an error of any kind: of the SDK (`HTTP 404: {"detail": …}`), of `request`, of the network. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const body = /^HTTP \d+: (?<body>[^]*)$/.exec(error.message)?.groups?.["body"];
  if (body !== undefined) return readDetail(body) || error.message;
  const reason = /closed by the server: \d+ ?(?<reason>.*)/.exec(error.message)?.groups?.["reason"];
  if (reason) return reason;
  const isUnreachable = /^(Unable to connect to LangGraph|Protocol WebSocket|Event stream closed)|failed to fetch|networkerror/i;
  return isUnreachable.test(error.message) ? "The server does not answer. Is it running?" : error.message;
}

export function errorStatus(error: unknown): number | undefined {
  const status = typeof error === "object" && error !== null && "status" in error ? error.status : undefined;
  return typeof status === "number" ? status : undefined;
}

function readDetail(body: string): string {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed !== "object" || parsed === null) return body;
    const detail = ["detail", "message", "error"].map((key) => (parsed as Record<string, unknown>)[key]).find((value) => value !== undefined);
    if (Array.isArray(detail)) return detail.map(validationText).join("\n");
    return typeof detail === "string" ? detail : JSON.stringify(detail ?? parsed);
  } catch {
    return body.slice(0, 500);
  }
}

/** One entry of a validation error: `api.base_url: Field required`. */
function validationText(entry: { loc?: unknown[]; msg?: string } | null): string {
  if (typeof entry?.msg !== "string") return JSON.stringify(entry);
  const field = (entry.loc ?? []).filter((part) => part !== "body").join(".");
  return field === "" ? entry.msg : `${field}: ${entry.msg}`;
}

/** JSON whose form is known only after a look at it. */
export type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a text that is a JSON object or list; undefined for any other text. */
export function parseJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}

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
    `/threads/${threadId}/commands`, { json },
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
  const { body } = await send(`/threads/${threadId}/stream/events`, { signal, json: { channels: CHANNELS, since } });
  if (body === null) return;
  const reader = body.pipeThrough(BytesLineDecoder()).pipeThrough(SSEDecoder()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const event = part.value.data as ThreadEvent;
    if (event.params.data["event"] !== "content-block-delta") yield event;
  }
}

/** How long a run took, its time in the queue included; until now if it has not ended. */
export function elapsed(run: Run): number {
  return Math.max(0, (isActive(run) ? Date.now() : Date.parse(run.updated_at)) - Date.parse(run.created_at));
}

/** The tokens that the server writes into the metadata of a run. */
export function usageOf(run: Run): Record<string, number | undefined> | undefined {
  return (run.metadata as { usage?: Record<string, number> } | null)?.usage;
}

export const MAX_ASSISTANTS = 1000;

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

/** The choices of a select; a name that is not unique has its graph and the end of its id as well. */
export function assistantOptions(all: Assistant[]) {
  const names = all.map((each) => each.name);
  const repeated = new Set(names.filter((name, index) => names.indexOf(name) !== index));
  return all.map(({ assistant_id: id, graph_id: graph, name }) =>
    [id, repeated.has(name) ? `${name} (${graph}, …${id.slice(-8)})` : name] as const);
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

export type ThreadInfo = Awaited<ReturnType<typeof readThread>>;

/** Read a thread without its values, which may be large; `problem` is why its newest run failed. */
async function readThread(threadId: string) {
  const { threads } = langgraph();
  const [thread] = await threads.search({ ids: [threadId], select: ["thread_id", "status", "updated_at", "metadata", "interrupts"] });
  if (!thread) throw new ApiError(404, `Thread ${threadId} does not exist. It may have been deleted.`);
  const { error } = (thread.status === "error" ? await threads.get(threadId) : {}) as { error?: { error: string; message: string } | null };
  const assistantId = textIn(thread.metadata?.["assistant_id"]) || undefined;
  // A thread whose run was stopped has the same status, but no interrupts.
  const { interrupts = {} } = thread as { interrupts?: object };
  const isWaiting = thread.status === "interrupted" && Object.keys(interrupts).length > 0;
  return { ...thread, assistantId, isWaiting, problem: error && `${error.error}: ${error.message}` };
}

/** The server's view of a thread, asked again and again: other tabs and clients may run it, too. */
export function useThread(threadId: string | undefined) {
  return useQuery({
    queryKey: ["thread", threadId],
    queryFn: () => readThread(threadId ?? ""),
    enabled: threadId !== undefined,
    refetchInterval: ({ state }) => (errorStatus(state.error) === 404 ? false : state.data?.status === "busy" ? 1000 : 3000),
  });
}

async function readThreads(limit: number, offset: number, metadata: Metadata) {
  const found = await langgraph().threads.search({
    limit, offset, metadata, sortBy: "updated_at", sortOrder: "desc",
    select: ["thread_id", "status", "updated_at", "metadata"],
    extract: { first: "values.messages[0].content" },
  });
  return found.map((thread) => {
    const graph = textIn(thread.metadata?.["graph_id"]);
    return { ...thread, graph, title: titleOf(thread.extracted?.["first"], graph) };
  });
}

type ThreadPage = Awaited<ReturnType<typeof readThreads>>;

/** The threads that changed last, in pages, with the beginning of their first message as their title. */
export function useThreads(limit: number, metadata: Metadata = {}) {
  return useInfiniteQuery({
    queryKey: ["threads", limit, metadata],
    refetchInterval: ({ state }) => 5000 * (state.data?.pages.length ?? 1),
    placeholderData: (before) => before,
    initialPageParam: 0,
    queryFn: ({ pageParam }) => readThreads(limit, pageParam, metadata),
    getNextPageParam: (page: ThreadPage, pages: ThreadPage[]) => (page.length < limit ? undefined : pages.length * limit),
    // A thread that changes between two requests is on both pages.
    select: ({ pages }: { pages: ThreadPage[] }) => [...new Map(pages.flat().map((thread) => [thread.thread_id, thread])).values()],
  });
}

function titleOf(first: unknown, graph: string): string {
  const blocks = Array.isArray(first) ? (first as { text?: string }[]) : [{ text: textIn(first) }];
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
    refetchInterval: ({ state }) => (state.data && isActive(state.data) ? 1000 : false),
  });
}
