/** What a page shows while it loads, when there is nothing yet, and when something failed. */
import type { UseQueryResult } from "@tanstack/react-query";
import { Component } from "react";

import { errorStatus, errorText } from "../client/server";
import { Button } from "./button";

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
    return <ErrorBox error={query.error} onRetry={() => void query.refetch()} />;
  }
  return (
    <Empty title={`No ${what} here`}>
      <p>This server runs another application, which does not have Toolweave’s routes for {what}.</p>
    </Empty>
  );
}

interface BoundaryProps {
  onReset: () => void;
  children: React.ReactNode;
}

/** Show an exception of the page in its place, so that the navigation still works. */
export class ErrorBoundary extends Component<BoundaryProps, { error: unknown }> {
  override state = { error: undefined as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    const retry = () => {
      this.props.onReset();
      this.setState({ error: undefined });
    };
    return <ErrorBox error={this.state.error} onRetry={retry} />;
  }
}
