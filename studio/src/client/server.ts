/** Requests to the server that serves this page: its address, the caller's token, errors as one class. */
import { Client } from "@langchain/langgraph-sdk";

const TOKEN_KEY = "toolweave-studio-token";
/** The folder above `/studio/`, so that a prefix of a reverse proxy stays in front. No slash at the end. */
export const serverUrl = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** A response that is not a success; `message` is the server's own explanation. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export function readToken(): string {
  return sessionStorage.getItem(TOKEN_KEY) ?? "";
}

export function storeToken(token: string): void {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/** Headers in which authentication handlers look for a token. */
export function authHeaders(): Record<string, string> {
  const token = readToken();
  return token === "" ? {} : { authorization: `Bearer ${token}`, "x-api-key": token };
}

/** The LangGraph SDK's client with the current token. */
export function langgraph(): Client {
  return new Client({ apiUrl: serverUrl, apiKey: null, defaultHeaders: authHeaders(), callerOptions: { maxRetries: 0 } });
}

/** Send a request to a route that the SDK does not know, and read its JSON. */
export async function request<T>(path: string, init: { method?: string; json?: unknown; signal?: AbortSignal } = {}): Promise<T> {
  const headers = { ...authHeaders(), ...(init.json === undefined ? {} : { "content-type": "application/json" }) };
  const response = await fetch(`${serverUrl}${path}`, {
    method: init.method ?? "GET",
    headers,
    ...(init.json === undefined ? {} : { body: JSON.stringify(init.json) }),
    ...(init.signal ? { signal: init.signal } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, readDetail(text) || response.statusText);
  return (text === "" ? null : JSON.parse(text)) as T;
}

/** The readable part of an error of any kind: of the SDK (`HTTP 404: {"detail": …}`), of `request`, of the network. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const body = /^HTTP \d+: (?<body>[^]*)$/.exec(error.message)?.groups?.["body"];
  if (body !== undefined) return readDetail(body) || error.message;
  return error instanceof TypeError && /fetch/i.test(error.message) ? "The server does not answer. Is it running?" : error.message;
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
