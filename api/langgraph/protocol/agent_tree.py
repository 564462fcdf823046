"""Draw which graphs a run has run, and how they stand, from what was told of their lives."""

from collections.abc import Sequence

from toolweave.runtime.models import JsonObject
from toolweave.runtime.protocol.thread_event import ThreadEvent
from toolweave.runtime.streaming.codec import loads


def agent_tree(events: Sequence[ThreadEvent]) -> JsonObject | None:
    """Give the root graph as {namespace, status, graph_name, children?}; None when nothing was told."""
    nodes: dict[tuple[str, ...], JsonObject] = {}
    for event in events:
        told = loads(event.data)["params"]["data"]
        node = nodes.setdefault(event.namespace, {"namespace": list(event.namespace), "status": "", "graph_name": ""})
        node |= {"status": told["event"], "graph_name": told.get("graph_name") or node["graph_name"]}
    for namespace, node in nodes.items():
        parent = nodes.get(namespace[:-1]) if namespace else None
        if parent is not None:
            parent.setdefault("children", []).append(node)
    return nodes.get(())
