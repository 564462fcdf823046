/** What a page shows while it loads, when there is nothing yet, when something failed, and the status of anything. */
import type { UseQueryResult } from "@tanstack/react-query";
import { Component } from "react";

import { errorStatus, errorText } from "../client";
import { Button } from "./buttons";

/** The tones of the statuses of runs, threads, servers and tool calls, and of the kinds of steps. */
const TONES: Record<string, string[]> = {
  good: ["success", "connected", "closed", "enabled", "active", "ready", "ok"],
  busy: ["running", "busy", "connecting", "model", "input"],
  warn: ["pending", "interrupted", "half_open", "degraded", "tool", "fork", "update"],
  bad: [
    "error", "timeout", "open", "down", "failed", "misconfigured", "tool_error", "invalid_arguments", "refused", "transport",
  ],
};

export function toneOf(status: string): string {
  return Object.keys(TONES).find((tone) => TONES[tone]?.includes(status)) ?? "";
}

export function Badge({ status }: { status: string }) {
  return <span className={`badge ${toneOf(status)}`}>{status.replace("_", " ")}</span>;
}

export function Loading({ what = "" }: { what?: string }) {
  return <p className="state" role="status">Loading{what && ` ${what}`}…</p>;
}

export function Empty({ title, children }: { title: string; children?: React.ReactNode }) {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Nothing if there is no error. */
export function ErrorBox({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  if (error === undefined || error === null) return null;
  const status = errorStatus(error);
  return (
    <div className="error-box" role="alert">
      <p>{errorText(error)}</p>
      {(status === 401 || status === 403) && <p>This server checks who calls: use “Enter token” in the sidebar.</p>}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

interface LoadedProps<T> {
  query: UseQueryResult<T>;
  what?: string;
  /** The route is one of Toolweave's own application: another one may be served instead. */
  isOurs?: boolean;
  children: (data: T) => React.ReactNode;
}

/** Show a query's data, or why there is none. */
export function Loaded<T>({ query, what = "", isOurs = false, children }: LoadedProps<T>) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (!query.isError) return <Loading what={what} />;
  if (!isOurs || errorStatus(query.error) !== 404) {
    const isUnknown = errorText(query.error) === "Not Found";
    return <ErrorBox error={isUnknown ? `The server does not know ${what || "it"}.` : query.error} onRetry={() => void query.refetch()} />;
  }
  return (
    <Empty title={`No ${what} here`}>
      <p>This server runs another application, which does not have Toolweave’s routes for {what}.</p>
    </Empty>
  );
}

/** Show an exception of the page in its place, so that the navigation still works. */
export class ErrorBoundary extends Component<{ children: React.ReactNode }, { error: unknown }> {
  override state = { error: undefined as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return <ErrorBox error={this.state.error} onRetry={() => this.setState({ error: undefined })} />;
  }
}
