/** Places for the nodes, edges and subgraphs of a drawing, by dagre. */
import type { Rect } from "@xyflow/react";
import { graphlib, layout as placeAll } from "@dagrejs/dagre";

export interface Drawing {
  nodes: { id: string }[];
  edges: { source: string; target: string; data?: string | null; conditional?: boolean }[];
}

export interface Box {
  id: string;
  label: string;
  kind: "node" | "group" | "start" | "end";
  depth: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface Line {
  id: string;
  source: string;
  target: string;
  label: string;
  isConditional: boolean;
  points: Point[];
  labelAt: Point;
}

const HEIGHT = 40;
const HEAD = 16;
const PX_PER_CHARACTER = 8;

/** The subgraphs that contain a node, outermost first: `a:b:c` is in `a` and `a:b`. */
export function groupsOf(id: string): string[] {
  const names = id.split(":");
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join(":"));
}

/** All nodes and subgraphs but start and end, in the order in which a run can reach them. */
export function reachableOrder({ nodes, edges }: Drawing): string[] {
  const found = new Set(["__start__"]);
  // A set yields what is added while it is read.
  for (const id of found) edges.filter((edge) => edge.source === id).forEach((edge) => found.add(edge.target));
  const ids = [...new Set([...found, ...nodes.map((node) => node.id)])].filter((id) => kindOf(id) === "node");
  return [...new Set(ids.flatMap((id) => [...groupsOf(id), id]))];
}

function kindOf(id: string): Box["kind"] {
  const name = id.split(":").at(-1);
  return name === "__start__" ? "start" : name === "__end__" ? "end" : "node";
}

export function layout(drawing: Drawing): { boxes: Box[]; lines: Line[]; bounds: Rect } {
  const graph = new graphlib.Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 36, edgesep: 24, ranksep: 48, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  const groups = new Set(drawing.nodes.flatMap((node) => groupsOf(node.id)));
  for (const id of groups) graph.setNode(id, {});
  for (const { id } of drawing.nodes) {
    const label = labelOf(id);
    graph.setNode(id, { width: Math.max(96, label.length * PX_PER_CHARACTER + 84), height: HEIGHT });
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
  const boxes = graph.nodes().map((id: string): Box => {
    const { x, y, width, height } = graph.node(id) as { x: number; y: number; width: number; height: number };
    const isGroup = groups.has(id);
    // Room for the name of the group, and of the groups at its top.
    const head = isGroup ? HEAD * Math.max(...drawing.nodes.filter((node) => node.id.startsWith(`${id}:`))
      .map((node) => groupsOf(node.id).length - groupsOf(id).length)) : 0;
    return {
      id, label: labelOf(id), kind: isGroup ? "group" : kindOf(id), depth: groupsOf(id).length,
      x: x - width / 2, y: y - height / 2 - head, width, height: height + head,
    };
  });
  const lines = drawing.edges.map((edge, index): Line => {
    const placed = graph.edge({ v: edge.source, w: edge.target, name: String(index) }) as {
      points: Point[]; x?: number; y?: number;
    };
    const middle = placed.points[Math.floor(placed.points.length / 2)] ?? { x: 0, y: 0 };
    return {
      id: String(index), source: edge.source, target: edge.target, label: edge.data ?? "",
      isConditional: edge.conditional === true, points: placed.points,
      labelAt: placed.x === undefined || placed.y === undefined ? middle : { x: placed.x, y: placed.y },
    };
  });
  // Edges and their labels may be outside of the nodes.
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const top = Math.min(0, ...boxes.map((box) => box.y));
  return { boxes, lines, bounds: { x: 0, y: top, width, height: height - top } };
}

function labelOf(id: string): string {
  const kind = kindOf(id);
  return kind === "node" ? id.split(":").at(-1) ?? id : kind;
}

/** A path through points with round corners. */
export function pathThrough(points: Point[]): string {
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
