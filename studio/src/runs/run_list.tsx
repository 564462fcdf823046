/** /runs?status=STATUS: what waits and executes now, and what has ended. */
import type { Thread } from "@langchain/langgraph-sdk";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";

import { elapsed, isActive, type StoredRun, usageOf } from "../client/protocol";
import { useAssistantNames } from "../client/queries";
import { langgraph } from "../client/server";
import { Ago, Badge, Button, duration, Empty, ErrorBox, Head, Loading, Select, shortId, Table } from "../ui";
import { CancelButton } from "./actions";

const STATUSES = ["pending", "running", "success", "error", "interrupted", "timeout"];
const PAGE = 25;
const REFRESH_MS = 2000;
const RUNS_PER_THREAD = 20;

export function RunList() {
  const [search, setSearch] = useSearchParams();
  const status = search.get("status") ?? "";
  const [limit, setLimit] = useState(PAGE);
  const { runs, isLoading, error, hasMore, retry } = useRuns(limit);
  const shown = runs.filter((run) => status === "" || run.status === status);
  const queue = shown.filter(isActive).sort(
    (one, other) => other.status.localeCompare(one.status) || one.created_at.localeCompare(other.created_at),
  );
  const ended = shown.filter((run) => !isActive(run));
  return (
    <div className="page">
      <Head title="Runs">
        <Select label="Status" className="inline" value={status} onChange={(value) => setSearch(value ? { status: value } : {})}
          options={[["", "All"], ...STATUSES.map((each) => [each, each] as const)]} />
      </Head>
      <ErrorBox error={error} onRetry={retry} />
      {queue.length > 0 && <RunTable title="Queue" runs={queue} isQueue />}
      {ended.length > 0 && <RunTable title="Ended runs" runs={ended} />}
      {isLoading && shown.length === 0 && error === null && <Loading what="runs" />}
      {!isLoading && shown.length === 0 && error === null && (
        <Empty title={status === "" ? "No runs yet" : `No runs with status “${status}”`}>
          {status === "" ? <p>Start one in the <Link href="/chat">chat</Link> or on a <Link href="/graphs">graph</Link>.</p> :
            <Button onClick={() => setSearch({})}>Show all runs</Button>}
        </Empty>
      )}
      {hasMore && <div><Button onClick={() => setLimit(limit + PAGE)}>Show older threads</Button></div>}
    </div>
  );
}

/**
 * The runs of the `limit` threads that changed last, and of all threads with work to do.
 * The API lists the runs of one thread: they are read again when the thread has changed.
 */
function useRuns(limit: number) {
  const threads = useQuery({
    queryKey: ["runs", "threads", limit],
    refetchInterval: REFRESH_MS,
    queryFn: async () => {
      const select: ("thread_id" | "updated_at" | "status")[] = ["thread_id", "updated_at", "status"];
      const [recent, busy] = await Promise.all([
        langgraph().threads.search({ limit, sortBy: "updated_at", sortOrder: "desc", select }),
        langgraph().threads.search({ limit: 100, status: "busy", select }),
      ]);
      const all = new Map<string, Thread>([...busy, ...recent].map((thread) => [thread.thread_id, thread]));
      return { threads: [...all.values()], hasMore: recent.length === limit };
    },
  });
  const lists = useQueries({
    queries: (threads.data?.threads ?? []).map(({ thread_id, updated_at, status }) => ({
      queryKey: ["runs", thread_id, updated_at, status],
      staleTime: status === "busy" ? 0 : Infinity,
      refetchInterval: status === "busy" ? REFRESH_MS : (false as const),
      queryFn: () => langgraph().runs.list(thread_id, { limit: RUNS_PER_THREAD }) as Promise<StoredRun[]>,
      placeholderData: (before: StoredRun[] | undefined) => before,
    })),
  });
  return {
    runs: lists.flatMap((list) => list.data ?? []).sort((one, other) => other.created_at.localeCompare(one.created_at)),
    isLoading: threads.isPending || lists.some((list) => list.isPending),
    error: threads.error,
    hasMore: threads.data?.hasMore ?? false,
    retry: () => void threads.refetch(),
  };
}

function RunTable({ title, runs, isQueue = false }: { title: string; runs: StoredRun[]; isQueue?: boolean }) {
  const nameOf = useAssistantNames();
  const pending = runs.filter((run) => run.status === "pending");
  const last = isQueue ? ["For", "Action"] : ["Duration", "Tokens"];
  return (
    <section className="stack" aria-label={title}>
      <h2>{title} <span className="muted">{runs.length}</span></h2>
      <Table label={`${title}, as a table`} head={["Status", "Run", "Assistant", "Thread", "Created", ...last]}>
        {runs.map((run) => (
          <tr key={run.run_id} data-run={run.run_id}>
            <td className="nowrap">
              <Badge status={run.status} />
              {run.status === "pending" && <span className="hint"> {pending.indexOf(run) + 1}.</span>}
            </td>
            <td><Link className="mono" href={`/runs/${run.thread_id}/${run.run_id}`}>{shortId(run.run_id)}</Link></td>
            <td>{nameOf(run.assistant_id)}</td>
            <td><Link className="mono" href={`/history/${run.thread_id}`}>{shortId(run.thread_id)}</Link></td>
            <td className="nowrap"><Ago time={run.created_at} /></td>
            <td className="nowrap">{duration(elapsed(run))}</td>
            <td>{isQueue ? <CancelButton run={run} /> : <span className="muted">{usageOf(run)?.total_tokens ?? "–"}</span>}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
