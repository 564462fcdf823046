/** /graphs/ASSISTANT?thread=ID&run=ID; without a run the last one of the thread is shown. */
import type { Assistant } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, Redirect, useLocation, useSearchParams } from "wouter";

import { useAssistants, useLastRun, useRun } from "../client/queries";
import { langgraph } from "../client/server";
import { GraphCanvas, type NodeRun } from "../graph/canvas";
import "../graph/graph.css";
import type { Drawing } from "../graph/layout";
import { NodeList } from "../graph/node_list";
import { RunPanel } from "../graph/run_panel";
import type { Span } from "../runs/timeline";
import { useTimeline } from "../runs/use_timeline";
import { Empty, ErrorBox, Head, Loaded, RunLinks, Select, usePath } from "../ui";

export default function GraphsPage() {
  const [wanted = ""] = usePath();
  const assistants = useAssistants();
  return (
    <Loaded query={assistants} what="graphs">
      {(found) => {
        const [first] = found;
        if (first === undefined) return <Empty title="No graphs">Name a graph in langgraph.json and start the server again.</Empty>;
        // A link may also name the graph.
        const chosen = found.find((each) => each.assistant_id === wanted) ?? found.find((each) => each.graph_id === wanted);
        if (chosen === undefined && wanted !== "") {
          return <Empty title="No such assistant"><Link href={`/graphs/${first.assistant_id}`}>Open {first.name}</Link></Empty>;
        }
        const assistant = chosen ?? first;
        if (assistant.assistant_id !== wanted) {
          return <Redirect replace to={`/graphs/${assistant.assistant_id}${location.search}`} />;
        }
        return <GraphPage key={wanted} assistant={assistant} all={found} />;
      }}
    </Loaded>
  );
}

function GraphPage({ assistant, all }: { assistant: Assistant; all: Assistant[] }) {
  const { assistant_id: assistantId, graph_id: graphId } = assistant;
  const [, navigate] = useLocation();
  const [search, setSearch] = useSearchParams();
  const threadId = search.get("thread") ?? undefined;
  const drawing = useQuery({
    queryKey: ["drawing", assistantId],
    queryFn: () => langgraph().assistants.getGraph(assistantId, { xray: true }) as Promise<Drawing>,
  });
  const lastRun = useLastRun(search.has("run") ? undefined : threadId);
  const run = useRun(threadId, search.get("run") ?? lastRun.data?.run_id).data;
  const { spans } = useTimeline(run);
  const runs = useMemo(() => runsByNode(spans), [spans]);
  const [selected, setSelected] = useState<string>();
  const toggle = (id: string) => setSelected(selected === id ? undefined : id);
  return (
    <div className="graph-page">
      <div className="graph-main">
        <div className="graph-head">
          <Head title="Graphs" status={run?.status}>
            {run && <RunLinks threadId={run.thread_id} runId={run.run_id} assistantId={assistantId} here="Graph" />}
            <Select label="Assistant" className="inline" value={assistantId} onChange={(id) => navigate(`/graphs/${id}`)}
              options={all.map((each) => [each.assistant_id, each.name])} />
          </Head>
        </div>
        <Loaded query={drawing} what="the drawing">
          {(loaded) => <GraphCanvas drawing={loaded} runs={runs} selected={selected} onSelect={setSelected} />}
        </Loaded>
      </div>
      <aside className="graph-side" aria-label="Run and nodes">
        <ErrorBox error={threadId && lastRun.error} />
        <RunPanel assistantId={assistantId} graphId={graphId} threadId={threadId} run={run}
          onStarted={(thread, started) => setSearch({ thread, run: started })}
          onThread={(thread) => setSearch(thread === undefined ? {} : { thread })} />
        {drawing.data && <NodeList drawing={drawing.data} runs={runs} selected={selected} onSelect={toggle} />}
      </aside>
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
