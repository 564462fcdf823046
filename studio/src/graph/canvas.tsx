/** The drawing of a graph; its nodes show how they stand in a run. */
import {
  BaseEdge, type Edge, EdgeLabelRenderer, type EdgeProps, Handle, MarkerType, type Node, type NodeProps, Position,
  ReactFlow, ReactFlowProvider, useReactFlow,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useMemo } from "react";

import type { Span } from "../runs/timeline";
import { Button, duration } from "../ui";
import { type Box, type Drawing, layout, type Line, pathThrough } from "./layout";

export interface NodeRun {
  last: Span;
  count: number;
}

interface CanvasProps {
  drawing: Drawing;
  runs: Map<string, NodeRun>;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

type BoxNode = Node<{ box: Box; run: NodeRun | undefined; isSelected: boolean }>;
type LineEdge = Edge<{ line: Line }>;

const NODE_TYPES = { box: BoxView };
const EDGE_TYPES = { line: LineView };

export function GraphCanvas(props: CanvasProps) {
  return (
    <ReactFlowProvider>
      <Flow {...props} />
    </ReactFlowProvider>
  );
}

function Flow({ drawing, runs, selected, onSelect }: CanvasProps) {
  const flow = useReactFlow();
  const placed = useMemo(() => layout(drawing), [drawing]);
  const nodes = placed.boxes.map((box): BoxNode => ({
    id: box.id, type: "box", position: { x: box.x, y: box.y }, width: box.width, height: box.height,
    zIndex: box.kind === "group" ? -1 : 1,
    data: { box, run: runs.get(box.id), isSelected: selected === box.id },
  }));
  const edges = useMemo(() => placed.lines.map((line): LineEdge => ({
    id: line.id, source: line.source, target: line.target, type: "line", data: { line },
    markerEnd: { type: MarkerType.ArrowClosed, color: "var(--muted)" },
  })), [placed]);
  return (
    <div className="graph-canvas">
      <div className="row graph-zoom">
        <Button aria-label="Zoom out" onClick={() => void flow.zoomOut()}>−</Button>
        <Button aria-label="Zoom in" onClick={() => void flow.zoomIn()}>+</Button>
        <Button onClick={() => void flow.fitBounds(placed.bounds)}>Fit</Button>
      </div>
      <div className="graph-flow">
        <ReactFlow nodes={nodes} edges={edges} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES}
          onInit={() => void flow.fitBounds(placed.bounds)} minZoom={0.15} maxZoom={1.25} nodesDraggable={false} nodesConnectable={false}
          nodesFocusable={false} edgesFocusable={false} elementsSelectable={false}
          onNodeClick={(_, { data: { box } }) => (box.kind === "node" || box.kind === "group") && onSelect(box.id)} preventScrolling={false}
          zoomOnScroll={false} panOnScroll={false} proOptions={{ hideAttribution: true }} aria-label="Drawing of the graph" />
      </div>
    </div>
  );
}

/** The list beside the drawing is the way in for the keyboard. */
function BoxView({ data: { box, run, isSelected } }: NodeProps<BoxNode>) {
  const status = run?.last.status ?? "idle";
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      {box.kind === "start" || box.kind === "end" ? <div className="graph-node end">{box.label}</div> : (
        <button type="button" tabIndex={-1} className={`graph-node nopan ${box.kind} ${status}`} data-node={box.id}
          data-status={status} aria-pressed={isSelected}>
          <span className="cut">{box.label}</span>
          {run && <NodeState run={run} />}
        </button>
      )}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
}

const SYMBOLS = { running: "●", success: "✓", error: "✗", interrupted: "‖" };

function NodeState({ run: { last, count } }: { run: NodeRun }) {
  const took = last.end === undefined ? "" : duration(last.end - last.start);
  return (
    <span className="graph-state" title={[last.status, took, count > 1 ? `${count} times` : ""].filter(Boolean).join(", ")}>
      {SYMBOLS[last.status]}{count > 1 && ` ×${count}`}
    </span>
  );
}

function LineView({ data, markerEnd }: EdgeProps<LineEdge>) {
  if (data === undefined) return null;
  const { label, labelAt, isConditional, points } = data.line;
  return (
    <>
      <BaseEdge path={pathThrough(points)} {...(markerEnd ? { markerEnd } : {})}
        className={isConditional ? "graph-edge conditional" : "graph-edge"} />
      {label !== "" && (
        <EdgeLabelRenderer>
          <span className="graph-edge-label" style={{ transform: `translate(-50%, -50%) translate(${labelAt.x}px, ${labelAt.y}px)` }}>
            {label}
          </span>
        </EdgeLabelRenderer>
      )}
    </>
  );
}
