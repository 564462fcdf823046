import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";

import { isActive, type StoredRun } from "../client/protocol";
import { langgraph } from "../client/server";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Empty, ErrorBox, Loading } from "../ui/states";
import { Ago, duration } from "../ui/time";
import { CancelButton } from "./actions";
import { shortId } from "./short_id";
import { elapsed, usageOf, useRuns } from "./use_runs";

const STATUSES = ["pending", "running", "success", "error", "interrupted", "timeout"];
const PAGE = 25;

/** /runs?status=STATUS: what waits and executes now, and what has ended. */
export function RunList() {
  const [search, setSearch] = useSearchParams();
  const status = search.get("status") ?? "";
  const [limit, setLimit] = useState(PAGE);
  const { runs, isLoading, error, hasMore, retry } = useRuns(limit);
  const names = useAssistantNames();
  const shown = runs.filter((run) => status === "" || run.status === status);
  const queue = shown.filter(isActive).sort(
    (one, other) => other.status.localeCompare(one.status) || one.created_at.localeCompare(other.created_at),
  );
  const ended = shown.filter((run) => !isActive(run));
  return (
    <div className="page">
      <div className="row between">
        <h1>Runs</h1>
        <label className="inline">
          Status
          <select value={status} onChange={(event) => setSearch(event.target.value ? { status: event.target.value } : {})}>
            <option value="">All</option>
            {STATUSES.map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
        </label>
      </div>
      {error !== null && <ErrorBox error={error} onRetry={retry} />}
      {queue.length > 0 && <section className="stack" aria-label="Queue">
        <h2>Queue <span className="muted">{queue.length}</span></h2>
        <RunTable runs={queue} names={names} isQueue />
      </section>}
      {ended.length > 0 && <section className="stack" aria-label="Ended runs">
        <h2>Ended</h2>
        <RunTable runs={ended} names={names} />
      </section>}
      {isLoading && shown.length === 0 && error === null && <Loading what="runs" />}
      {!isLoading && shown.length === 0 && error === null && (
        <Empty title={status === "" ? "No runs yet" : `No runs with status “${status}”`}>
          {status === "" ? <p>Start one in the <Link href="/chat">chat</Link> or on a <Link href="/graphs">graph</Link>.</p> :
            <Button onClick={() => setSearch({})}>Show all runs</Button>}
        </Empty>
      )}
      {hasMore && <div className="row"><Button onClick={() => setLimit(limit + PAGE)}>Show older threads</Button></div>}
    </div>
  );
}

function RunTable({ runs, names, isQueue = false }: { runs: StoredRun[]; names: Map<string, string>; isQueue?: boolean }) {
  const pending = runs.filter((run) => run.status === "pending");
  return (
    <div className="table-scroll" tabIndex={0} role="group" aria-label={isQueue ? "Runs in the queue" : "Runs that have ended"}>
      <table className="runs-table">
        <thead>
          <tr>
            <th>Status</th><th>Run</th><th>Assistant</th><th>Thread</th><th>Created</th>
            <th>{isQueue ? "For" : "Duration"}</th><th>{isQueue ? "Action" : "Tokens"}</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.run_id} data-run={run.run_id}>
              <td>
                <Badge status={run.status} />
                {run.status === "pending" && <span className="hint"> {pending.indexOf(run) + 1}.</span>}
              </td>
              <td><Link className="mono" href={`/runs/${run.thread_id}/${run.run_id}`}>{shortId(run.run_id)}</Link></td>
              <td>{names.get(run.assistant_id) ?? shortId(run.assistant_id)}</td>
              <td><Link className="mono" href={`/history/${run.thread_id}`}>{shortId(run.thread_id)}</Link></td>
              <td><Ago time={run.created_at} /></td>
              <td>{duration(elapsed(run, !isActive(run)))}</td>
              <td>{isQueue ? <CancelButton run={run} /> : <span className="muted">{usageOf(run)?.total_tokens ?? "–"}</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function useAssistantNames(): Map<string, string> {
  const assistants = useQuery({
    queryKey: ["assistants", "all"], queryFn: () => langgraph().assistants.search({ limit: 200, sortBy: "name", sortOrder: "asc" }),
  });
  return new Map((assistants.data ?? []).map((each) => [each.assistant_id, each.name]));
}
