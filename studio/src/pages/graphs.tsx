import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, Redirect, useLocation, useParams, useSearchParams } from "wouter";

import type { StoredRun } from "../client/protocol";
import { langgraph } from "../client/server";
import { GraphCanvas, type NodeRun } from "../graph/canvas";
import "../graph/graph.css";
import type { Drawing } from "../graph/layout";
import { NodeList } from "../graph/node_list";
import { RunPanel } from "../graph/run_panel";
import type { Span } from "../runs/timeline";
import { useRun, useTimeline } from "../runs/use_timeline";
import { Badge } from "../ui/badge";
import { Empty, ErrorBox, Loaded } from "../ui/states";

/** /graphs/ASSISTANT?thread=ID&run=ID; without a run the last one of the thread is shown. */
export default function GraphsPage() {
  const { "*": assistantId = "" } = useParams();
  const [, navigate] = useLocation();
  const assistants = useQuery({
    queryKey: ["assistants", "all"], queryFn: () => langgraph().assistants.search({ limit: 200, sortBy: "name", sortOrder: "asc" }),
  });
  return (
    <Loaded query={assistants} what="graphs">
      {(found) => {
        const first = found[0];
        if (first === undefined) return <Empty title="No graphs">Name a graph in langgraph.json and start the server again.</Empty>;
        // A link may also name the graph.
        const chosen = found.find((each) => each.assistant_id === assistantId) ??
          found.find((each) => each.graph_id === assistantId);
        if (chosen === undefined && assistantId !== "") {
          return <Empty title="No such assistant"><Link href={`/graphs/${first.assistant_id}`}>Open {first.name}</Link></Empty>;
        }
        if (chosen?.assistant_id !== assistantId) {
          return <Redirect replace to={`/graphs/${(chosen ?? first).assistant_id}${location.search}`} />;
        }
        return (
          <GraphPage key={assistantId} assistantId={assistantId} graphId={chosen.graph_id} picker={
            <select aria-label="Assistant" value={assistantId} onChange={(event) => navigate(`/graphs/${event.target.value}`)}>
              {found.map((each) => <option key={each.assistant_id} value={each.assistant_id}>{each.name}</option>)}
            </select>
          } />
        );
      }}
    </Loaded>
  );
}

function GraphPage({ assistantId, graphId, picker }: { assistantId: string; graphId: string; picker: React.ReactNode }) {
  const [search, setSearch] = useSearchParams();
  const threadId = search.get("thread") ?? undefined;
  const drawing = useQuery({
    queryKey: ["drawing", assistantId],
    queryFn: () => langgraph().assistants.getGraph(assistantId, { xray: true }) as Promise<Drawing>,
  });
  const lastRun = useQuery({
    queryKey: ["last-run", threadId], enabled: threadId !== undefined && !search.has("run"),
    queryFn: async () => (await langgraph().runs.list(threadId ?? "", { limit: 1 }))[0] ?? null,
  });
  const runId = search.get("run") ?? lastRun.data?.run_id;
  const run = useRun(threadId, runId);
  const { spans } = useTimeline(run.data);
  const runs = useMemo(() => runsByNode(spans), [spans]);
  const [selected, setSelected] = useState<string>();
  const toggle = (id: string) => setSelected(selected === id ? undefined : id);
  return (
    <div className="graph-page">
      <div className="graph-main">
        <div className="row between graph-head">
          <div className="row"><h1>Graph</h1>{picker}</div>
          {run.data && threadId && <RunLinks run={run.data} />}
        </div>
        <Loaded query={drawing} what="the drawing">
          {(loaded) => <GraphCanvas drawing={loaded} runs={runs} selected={selected} onSelect={setSelected} />}
        </Loaded>
      </div>
      <aside className="graph-side" aria-label="Run and nodes">
        {threadId !== undefined && lastRun.isError && <ErrorBox error={lastRun.error} />}
        <RunPanel assistantId={assistantId} graphId={graphId} threadId={threadId} run={run.data}
          onStarted={(thread, started) => setSearch({ thread, run: started })}
          onThread={(thread) => setSearch(thread === undefined ? {} : { thread })} />
        {drawing.data && <NodeList drawing={drawing.data} runs={runs} selected={selected} onSelect={toggle} />}
      </aside>
    </div>
  );
}

function RunLinks({ run }: { run: StoredRun }) {
  return (
    <div className="row">
      <span role="status"><Badge status={run.status} /></span>
      <Link href={`/runs/${run.thread_id}/${run.run_id}`}>Run</Link>
      <Link href={`/history/${run.thread_id}`}>History</Link>
      <Link href={`/chat/${run.thread_id}`}>Chat</Link>
    </div>
  );
}

function runsByNode(spans: Span[]): Map<string, NodeRun> {
  const runs = new Map<string, NodeRun>();
  for (const span of spans) {
    if (span.kind !== "node") continue;
    runs.set(span.path, { last: span, count: (runs.get(span.path)?.count ?? 0) + 1 });
  }
  return runs;
}
