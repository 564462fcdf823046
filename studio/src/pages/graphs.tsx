/** /graphs/ASSISTANT?thread=ID&run=ID; without a run the last one of the thread is shown. */
import { graphlib, layout as placeAll } from "@dagrejs/dagre";
import type { Assistant } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import {
  BaseEdge, type Edge, type EdgeProps, Handle, MarkerType, type Node, type NodeProps, Position, ReactFlow,
  type ReactFlowInstance, type Rect, type XYPosition,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { createContext, useContext, useMemo, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { RunInput } from "../chat/composer";
import {
  assistantOptions, isActive, type Json, langgraph, startRun, type StoredRun, useAssistants, useChange, useLastRun, useRun,
  useSchemas, useThread, useThreads,
} from "../client";
import "./graphs.css";
import { type Span, SpanDetails, SpanTime, useTimeline } from "../runs/timeline";
import { Badge, Button, Empty, ErrorBox, Head, Loaded, RunLinks, Select, shortId, toneOf, usePath } from "../ui";

export default function GraphsPage() {
  const [wanted = ""] = usePath();
  const assistants = useAssistants();
  return (
    <Loaded query={assistants} what="graphs">
      {(found) => {
        const [first] = found;
        if (first === undefined) return <Empty title="No graphs">Name a graph in langgraph.json and start the server again.</Empty>;
        // A link may also name the graph.
        const assistant = wanted === "" ? first : found.find((each) => [each.assistant_id, each.graph_id].includes(wanted));
        if (assistant) return <GraphPage key={assistant.assistant_id} assistant={assistant} all={found} />;
        return <Empty title="No such assistant"><Link href={`/graphs/${first.assistant_id}`}>Open {first.name}</Link></Empty>;
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
    <div className="split graph-page">
      <section className="graph-main">
        <div className="bar">
          <Head title="Graphs" status={run?.status}>
            {run && <RunLinks threadId={run.thread_id} runId={run.run_id} assistantId={assistantId} here="Graph" />}
            <Select label="Assistant" className="inline" value={assistantId} onChange={(id) => navigate(`/graphs/${id}`)}
              options={assistantOptions(all)} />
          </Head>
        </div>
        <Loaded query={drawing} what="the drawing">
          {(loaded) => <GraphCanvas drawing={loaded} runs={runs} selected={selected} onSelect={setSelected} />}
        </Loaded>
      </section>
      <aside aria-label="Run and nodes">
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

const MAX_THREADS = 20;

interface RunPanelProps {
  assistantId: string;
  graphId: string;
  threadId: string | undefined;
  run: StoredRun | undefined;
  onStarted: (threadId: string, runId: string) => void;
  onThread: (threadId: string | undefined) => void;
}

function RunPanel({ assistantId, graphId, threadId, run, onStarted, onThread }: RunPanelProps) {
  const schemas = useSchemas(assistantId);
  const threads = useThreads(MAX_THREADS, { graph_id: graphId }).data ?? [];
  const start = useChange(async (input: Json) => {
    const thread = threadId ?? crypto.randomUUID();
    return { thread, run: await startRun(thread, { assistant_id: assistantId, input }) };
  }, ["threads"], (started) => onStarted(started.thread, started.run));
  const stop = useChange((active: StoredRun) => langgraph().runs.cancel(active.thread_id, active.run_id), ["run"]);
  const isRunning = run !== undefined && isActive(run);
  const thread = useThread(threadId);
  // Until the thread is read after a run, an input could answer an interrupt that is not shown yet.
  const isBlocked = start.isPending || thread.isLoading || thread.data?.status === "busy";
  const isListed = threads.some((thread) => thread.thread_id === threadId);
  return (
    <section className="stack" aria-label="Run">
      <h2>Run</h2>
      <Select label="Thread" value={threadId ?? ""} onChange={(id) => onThread(id || undefined)} options={[
        ["", "New thread"],
        ...(threadId === undefined || isListed ? [] : [[threadId, threadId] as const]),
        ...threads.map(({ thread_id: id, title }) => [id, `${title} (${shortId(id)})`] as const),
      ]} />
      {thread.data?.isWaiting ? (
        <p role="status">
          This thread waits for an answer. <Link href={`/chat/${thread.data.thread_id}?assistant=${assistantId}`}>Answer in the chat</Link>
        </p>
      ) : (
        <Loaded query={schemas} what="the input">
          {({ input_schema: schema }) => (
            <RunInput schema={schema} isRunning={isRunning} isBlocked={isBlocked} placeholder="Message"
              onRun={start.mutate} onStop={() => run && stop.mutate(run)} />
          )}
        </Loaded>
      )}
      <ErrorBox error={start.error ?? stop.error} />
    </section>
  );
}

interface NodeListProps {
  drawing: Drawing;
  runs: Map<string, NodeRun>;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

function scrollIntoView(element: HTMLElement | null) {
  element?.scrollIntoView({ block: "nearest" });
}

/** The nodes of the drawing as buttons, with their subgraphs before them; the selected one shows its last execution. */
function NodeList({ drawing, runs, selected, onSelect }: NodeListProps) {
  const names = useMemo(() => namesOf(drawing), [drawing]);
  return (
    <section className="stack" aria-label="Nodes">
      <h2>Nodes</h2>
      <ul className="list">
        {names.map((id) => {
          const run = runs.get(id);
          const isOpen = selected === id;
          return (
            <li key={id} ref={isOpen ? scrollIntoView : null}>
              <button type="button" aria-expanded={isOpen} aria-current={isOpen} onClick={() => onSelect(id)}>
                <span className="row between">
                  <span className="cut" title={id}>{id.replaceAll(":", " › ")}</span>
                  {run && <span className="row"><SpanTime span={run.last} /><Badge status={run.last.status} /></span>}
                </span>
              </button>
              {isOpen && run && <SpanDetails span={run.last} count={run.count} />}
              {isOpen && !run && <p className="hint span-details">It has not run. Start a run above, or choose a thread.</p>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

interface NodeRun {
  last: Span;
  count: number;
}

interface CanvasProps {
  drawing: Drawing;
  runs: Map<string, NodeRun>;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

const NODE_TYPES = { box: BoxView };
const EDGE_TYPES = { line: LineView };
const StateContext = createContext<Pick<CanvasProps, "runs" | "selected">>({ runs: new Map(), selected: undefined });

function GraphCanvas({ drawing, runs, selected, onSelect }: CanvasProps) {
  const { bounds, ...placed } = useMemo(() => layout(drawing), [drawing]);
  const [flow, setFlow] = useState<ReactFlowInstance<BoxNode, LineEdge>>();
  return (
    <div className="graph-canvas">
      <div className="row end graph-zoom">
        <Button aria-label="Zoom out" onClick={() => void flow?.zoomOut()}>−</Button>
        <Button aria-label="Zoom in" onClick={() => void flow?.zoomIn()}>+</Button>
        <Button onClick={() => void flow?.fitBounds(bounds)}>Fit</Button>
      </div>
      <StateContext value={{ runs, selected }}>
        <ReactFlow {...placed} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES} minZoom={0.15} maxZoom={1.25}
          onInit={(ready) => { setFlow(ready); void ready.fitBounds(bounds); }} nodesDraggable={false} nodesConnectable={false}
          nodesFocusable={false} edgesFocusable={false} elementsSelectable={false} ariaLabelConfig={NO_KEYS} zoomOnScroll={false} panOnScroll={false}
          onNodeClick={(_, { id, data: { kind } }) => (kind === "node" || kind === "group") && onSelect(id)} preventScrolling={false}
          proOptions={{ hideAttribution: true }} aria-label="Drawing of the graph" />
      </StateContext>
    </div>
  );
}

/** The descriptions of React Flow say that keys select and remove nodes, which is not so here. */
const NO_KEYS = {
  "node.a11yDescription.default": "", "node.a11yDescription.keyboardDisabled": "", "edge.a11yDescription.default": "",
};

/** The list beside the drawing is the way in for the keyboard. */
function BoxView({ id, data: { label, kind } }: NodeProps<BoxNode>) {
  const { runs, selected } = useContext(StateContext);
  const run = runs.get(id);
  const status = run?.last.status ?? "idle";
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      {kind === "start" || kind === "end" ? <div className="graph-node end">{label}</div> : (
        <button type="button" tabIndex={-1} className={`graph-node nopan ${kind} ${status} ${toneOf(status)}`} data-node={id}
          data-status={status} aria-pressed={selected === id}>
          <span className="cut">{label}</span>
          {run && <span className="nowrap">{SYMBOLS[run.last.status]}{run.count > 1 && ` ×${run.count}`}</span>}
        </button>
      )}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
}

const SYMBOLS = { running: "●", success: "✓", error: "✗", interrupted: "‖" };

function LineView({ data, label, markerEnd = "" }: EdgeProps<LineEdge>) {
  if (data === undefined) return null;
  const { points, labelAt, isConditional } = data;
  return (
    <BaseEdge path={pathThrough(points)} markerEnd={markerEnd} label={label} labelX={labelAt.x} labelY={labelAt.y}
      labelBgPadding={[4, 2]} className={`graph-edge ${isConditional ? "conditional" : ""}`} />
  );
}

interface Drawing {
  nodes: { id: string }[];
  edges: { source: string; target: string; data?: string | null; conditional?: boolean }[];
}

type BoxNode = Node<{ label: string; kind: "node" | "group" | "start" | "end" }>;
type LineEdge = Edge<{ points: XYPosition[]; labelAt: XYPosition; isConditional: boolean }>;

const HEIGHT = 40;
const HEAD = 16;
const PX_PER_CHARACTER = 8;

/** The subgraphs that contain a node, outermost first: `a:b:c` is in `a` and `a:b`. */
function groupsOf(id: string): string[] {
  const names = id.split(":");
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join(":"));
}

/** All nodes and subgraphs but start and end, as they stand in the drawing from its top on. */
function namesOf(drawing: Drawing): string[] {
  const named = layout(drawing).nodes.filter(({ data: { kind } }) => kind === "node" || kind === "group");
  return named.sort((one, other) => one.position.y - other.position.y).map((node) => node.id);
}

function kindOf(id: string): "node" | "start" | "end" {
  const name = id.split(":").at(-1);
  return name === "__start__" ? "start" : name === "__end__" ? "end" : "node";
}

function layout(drawing: Drawing): { nodes: BoxNode[]; edges: LineEdge[]; bounds: Rect } {
  const graph = new graphlib.Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 36, edgesep: 24, ranksep: 48, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  const groups = new Set(drawing.nodes.flatMap((node) => groupsOf(node.id)));
  for (const id of groups) graph.setNode(id, {});
  for (const { id } of drawing.nodes) {
    graph.setNode(id, { width: Math.max(96, labelOf(id).length * PX_PER_CHARACTER + 84), height: HEIGHT });
  }
  for (const id of [...groups, ...drawing.nodes.map((node) => node.id)]) {
    const parent = groupsOf(id).at(-1);
    if (parent !== undefined) graph.setParent(id, parent);
  }
  drawing.edges.forEach((edge, index) => {
    const width = (edge.data?.length ?? 0) * 7 + 8;
    graph.setEdge(edge.source, edge.target, edge.data ? { width, height: 18, labelpos: "c" } : {}, String(index));
  });
  placeAll(graph);
  const nodes = graph.nodes().map((id: string): BoxNode => {
    const { x, y, width, height } = graph.node(id) as Rect;
    const isGroup = groups.has(id);
    // Room for the name of the group, and of the groups at its top.
    const head = isGroup ? HEAD * Math.max(...drawing.nodes.filter((node) => node.id.startsWith(`${id}:`))
      .map((node) => groupsOf(node.id).length - groupsOf(id).length)) : 0;
    return {
      id, type: "box", position: { x: x - width / 2, y: y - height / 2 - head }, width, height: height + head,
      zIndex: isGroup ? -1 : 1, data: { label: labelOf(id), kind: isGroup ? "group" : kindOf(id) },
    };
  });
  const edges = drawing.edges.map(({ source, target, data, conditional }, index): LineEdge => {
    const placed = graph.edge({ v: source, w: target, name: String(index) }) as Partial<XYPosition> & { points: XYPosition[] };
    const { points, x = 0, y = 0 } = placed;
    return {
      id: String(index), source, target, type: "line", label: data,
      data: { points, labelAt: { x, y }, isConditional: conditional === true },
      markerEnd: { type: MarkerType.ArrowClosed, color: "var(--muted)" },
    };
  });
  // Edges and their labels may be outside of the nodes.
  const { width = 0, height = 0 } = graph.graph() as Partial<Rect>;
  const top = Math.min(0, ...nodes.map((node) => node.position.y));
  return { nodes, edges, bounds: { x: 0, y: top, width, height: height - top } };
}

function labelOf(id: string): string {
  const kind = kindOf(id);
  return kind === "node" ? id.split(":").at(-1) ?? id : kind;
}

/** A path through points with round corners. */
function pathThrough(points: XYPosition[]): string {
  const [first, ...rest] = points;
  const last = rest.pop();
  if (first === undefined || last === undefined) return "";
  const curves = rest.map((point, index) => {
    const next = rest[index + 1] ?? last;
    const end = index === rest.length - 1 ? last : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q ${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  return `M ${first.x} ${first.y} ${curves.length === 0 ? `L ${last.x} ${last.y}` : curves.join(" ")}`;
}
