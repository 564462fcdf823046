import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useParams, useSearchParams } from "wouter";

import { langgraph } from "../client/server";
import { Checkpoint } from "../history/checkpoint";
import "../history/history.css";
import { Timeline } from "../history/timeline";
import { idOf, useHistory, useThread } from "../history/use_history";
import { Badge } from "../ui/badge";
import { Button } from "../ui/button";
import { Empty, ErrorBox, Loaded, Loading } from "../ui/states";
import { Ago } from "../ui/time";

/** /history/THREAD?checkpoint=ID&with=ID */
export default function HistoryPage() {
  const { "*": threadId = "" } = useParams();
  return threadId === "" ? <ThreadPicker /> : <ThreadHistory key={threadId} threadId={threadId} />;
}

const PAGE = 30;

function ThreadPicker() {
  const [, navigate] = useLocation();
  const [limit, setLimit] = useState(PAGE);
  const [id, setId] = useState("");
  const threads = useQuery({
    queryKey: ["threads", "history", limit], refetchInterval: 5000, placeholderData: (before) => before,
    queryFn: () => langgraph().threads.search({
      limit, sortBy: "updated_at", sortOrder: "desc", select: ["thread_id", "status", "updated_at", "metadata"],
    }),
  });
  return (
    <div className="page">
      <h1>History</h1>
      <form className="row" onSubmit={(event) => { event.preventDefault(); navigate(`/history/${id.trim()}`); }}>
        <label className="grow">Thread ID <input value={id} required placeholder="Open any thread by its ID" onChange={(event) => setId(event.target.value)} /></label>
        <Button type="submit" style={{ alignSelf: "flex-end" }}>Open</Button>
      </form>
      <Loaded query={threads} what="threads">
        {(found) => found.length === 0 ? (
          <Empty title="No threads yet"><p>Start one in the <Link href="/chat">chat</Link> or on a <Link href="/graphs">graph</Link>.</p></Empty>
        ) : (
          <div className="table-scroll" tabIndex={0} role="group" aria-label="Threads">
            <table>
              <thead><tr><th>Thread</th><th>Graph</th><th>Status</th><th>Changed</th></tr></thead>
              <tbody>
                {found.map((thread) => (
                  <tr key={thread.thread_id}>
                    <td><Link className="mono" href={`/history/${thread.thread_id}`}>{thread.thread_id}</Link></td>
                    <td>{(thread.metadata as { graph_id?: string } | null)?.graph_id ?? "–"}</td>
                    <td><Badge status={thread.status} /></td>
                    <td><Ago time={thread.updated_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
            {found.length === limit && <Button onClick={() => setLimit(limit + PAGE)}>Show older threads</Button>}
          </div>
        )}
      </Loaded>
    </div>
  );
}

function ThreadHistory({ threadId }: { threadId: string }) {
  const [search, setSearch] = useSearchParams();
  const thread = useThread(threadId);
  const history = useHistory(threadId, thread.data && `${thread.data.updated_at} ${thread.data.status}`);
  const states = history.data?.pages.flat() ?? [];
  const assistantId = (thread.data?.metadata as { assistant_id?: string } | null | undefined)?.assistant_id;
  const wanted = search.get("checkpoint");
  const state = states.find((each) => idOf(each) === wanted) ?? (wanted === null ? states[0] : undefined);
  const show = (checkpoint: string | undefined, other?: string) =>
    setSearch({ ...(checkpoint ? { checkpoint } : {}), ...(other ? { with: other } : {}) });
  return (
    <div className="split">
      <aside aria-label="Timeline">
        <div className="row between">
          <Link href="/history">All threads</Link>
          {thread.data && <span role="status"><Badge status={thread.data.status} /></span>}
        </div>
        <p className="mono hint cut" title={threadId}>{threadId}</p>
        <div className="row">
          <Link href={`/chat/${threadId}`}>Chat</Link>
          {assistantId && <Link href={`/graphs/${assistantId}?thread=${threadId}`}>Graph</Link>}
        </div>
        {states.length > 0 && <Timeline states={states} selected={state ? idOf(state) : ""} onSelect={(id) => show(id)} />}
        {history.hasNextPage && (
          <Button disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>Show older checkpoints</Button>
        )}
      </aside>
      <section aria-label="Checkpoint">
        {thread.isError && <div className="page"><ErrorBox error={thread.error} onRetry={() => void thread.refetch()} /></div>}
        {history.isError && <div className="page"><ErrorBox error={history.error} onRetry={() => void history.refetch()} /></div>}
        {state && <Checkpoint key={idOf(state)} threadId={threadId} state={state} states={states} assistantId={assistantId}
          isBusy={thread.data?.status === "busy"} comparedId={search.get("with") ?? undefined} onCompare={(other) => show(idOf(state), other)} onShow={show} />}
        {!state && !thread.isError && !history.isError && (history.isPending ? <Loading what="the history" /> :
          states.length === 0 ? <Empty title="No checkpoints yet"><p>This thread has not run.</p></Empty> :
            <Empty title="This checkpoint is not among those shown"><Button onClick={() => show(undefined)}>Show the newest</Button></Empty>)}
      </section>
    </div>
  );
}
