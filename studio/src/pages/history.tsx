/** /history/THREAD?checkpoint=ID&with=ID */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { useThread, useThreads } from "../client/queries";
import { langgraph } from "../client/server";
import { Checkpoint } from "../history/checkpoint";
import "../history/history.css";
import { idOf, Timeline } from "../history/timeline";
import {
  Ago, Badge, Button, Empty, ErrorBox, Form, Head, Loaded, Loading, RunLinks, SplitPage, Table, TextField, usePath,
} from "../ui";

const THREADS = 30;
const CHECKPOINTS = 40;

export default function HistoryPage() {
  const [threadId] = usePath();
  return threadId === undefined ? <ThreadPicker /> : <ThreadHistory key={threadId} threadId={threadId} />;
}

function ThreadPicker() {
  const [, navigate] = useLocation();
  const [limit, setLimit] = useState(THREADS);
  const [id, setId] = useState("");
  const threads = useThreads(limit);
  return (
    <div className="page">
      <Head title="History" />
      <Loaded query={threads} what="threads">
        {(found) => (found.length === 0
          ? <Empty title="No threads yet"><p>Start one in the <Link href="/chat">chat</Link> or on a <Link href="/graphs">graph</Link>.</p></Empty>
          : (
            <Table label="Threads" head={["Thread", "Id", "Graph", "Status", "Changed"]}>
              {found.map((thread) => (
                <tr key={thread.id}>
                  <td><span className="cut">{thread.title}</span></td>
                  <td><Link className="mono" href={`/history/${thread.id}`}>{thread.id}</Link></td>
                  <td>{thread.graph ?? "–"}</td>
                  <td><Badge status={thread.status} /></td>
                  <td className="nowrap"><Ago time={thread.updated} /></td>
                </tr>
              ))}
            </Table>
          ))}
      </Loaded>
      {threads.data?.length === limit && <div><Button onClick={() => setLimit(limit + THREADS)}>Show older threads</Button></div>}
      <Form submit="Open" onSubmit={() => navigate(`/history/${id.trim()}`)}>
        <TextField label="Any other thread, by its id" required value={id} onChange={setId} />
      </Form>
    </div>
  );
}

/** The checkpoints of a thread, newest first; `changedAt` is the time of the thread's last change. */
function useHistory(threadId: string, changedAt: string | undefined) {
  return useInfiniteQuery({
    queryKey: ["history", threadId, changedAt],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => langgraph().threads.getHistory(threadId, {
      limit: CHECKPOINTS, ...(pageParam === undefined ? {} : { before: { configurable: { checkpoint_id: pageParam } } }),
    }),
    getNextPageParam: (page) => (page.length < CHECKPOINTS ? undefined : page.at(-1)?.checkpoint.checkpoint_id ?? undefined),
    placeholderData: (before) => before,
    enabled: changedAt !== undefined,
  });
}

function ThreadHistory({ threadId }: { threadId: string }) {
  const [search, setSearch] = useSearchParams();
  const thread = useThread(threadId);
  const history = useHistory(threadId, thread.data && `${thread.data.updated_at} ${thread.data.status}`);
  const states = history.data?.pages.flat() ?? [];
  const wanted = search.get("checkpoint");
  const state = states.find((each) => idOf(each) === wanted) ?? (wanted === null ? states[0] : undefined);
  const error = thread.error ?? history.error;
  const show = (checkpoint: string | undefined, other?: string) =>
    setSearch({ ...(checkpoint ? { checkpoint } : {}), ...(other ? { with: other } : {}) });
  return (
    <SplitPage title="History" label="Checkpoint" actions={<Link href="/history">All threads</Link>} list={
      <>
        <div className="row between">
          <RunLinks threadId={threadId} assistantId={thread.data?.assistantId} here="History" />
          {thread.data && <span role="status"><Badge status={thread.data.status} /></span>}
        </div>
        <p className="mono hint cut" title={threadId}>{threadId}</p>
        {states.length > 0 && <Timeline states={states} selected={state ? idOf(state) : ""} onSelect={(id) => show(id)} />}
        {history.hasNextPage && (
          <Button disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>Show older checkpoints</Button>
        )}
      </>
    }>
      <ErrorBox error={error} onRetry={() => void thread.refetch()} />
      {state && (
        <Checkpoint key={idOf(state)} threadId={threadId} state={state} states={states} assistantId={thread.data?.assistantId}
          isBusy={thread.data?.status === "busy"} comparedId={search.get("with") ?? undefined} onShow={show}
          onCompare={(other) => show(idOf(state), other)} />
      )}
      {!state && error === null && history.isPending && <Loading what="the history" />}
      {!state && history.isSuccess && (states.length === 0
        ? <Empty title="No checkpoints yet"><p>This thread has not run.</p></Empty>
        : <Empty title="This checkpoint is not among those shown"><Button onClick={() => show(undefined)}>Show the newest</Button></Empty>)}
    </SplitPage>
  );
}
