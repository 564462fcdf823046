"""The states of threads: the newest, one at a checkpoint, the history, and writing."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "GET /threads/{thread_id}/history": (
        "200 gives the states newest first, one by default",
        "200 gives the states before a checkpoint",
        "404 unknown thread",
        "422 bad thread id or limit",
    ),
    "POST /threads/{thread_id}/history": (
        "200 gives nothing for a new thread",
        "200 gives the states newest first, one by default",
        "200 understands before as an id, a checkpoint and a config",
        "200 filters by checkpoint metadata",
        "200 shows only the fields that are selected",
        "200 gives the states of a subgraph's namespace",
        "404 unknown thread",
        "422 bad thread id, limit or filter",
    ),
    "GET /threads/{thread_id}/state": (
        "200 gives an empty state for a new thread",
        "200 names the checkpoint and the run",
        "200 shows tasks with their interrupts",
        "200 shows tasks with their errors",
        "200 shows the states of subgraphs on request",
        "200 shows only the fields that are selected",
        "404 unknown thread, or its graph is not served any more",
        "422 bad thread id or select",
    ),
    "POST /threads/{thread_id}/state": (
        "200 writes on top of the newest state",
        "200 writes as a node, which decides what comes next",
        "200 forks from an earlier checkpoint",
        "400 the thread has no graph",
        "400 the graph does not take the update",
        "404 unknown thread or checkpoint",
        "409 a run is executing",
        "409 a run is pending, delayed ones included",
        "422 bad thread id or body",
    ),
    "POST /threads/{thread_id}/state/checkpoint": (
        "200 gives the state at a checkpoint, or the newest",
        "404 unknown thread",
        "422 bad thread id or no checkpoint",
    ),
    "GET /threads/{thread_id}/state/{checkpoint_id}": (
        "200 gives the state at a checkpoint",
        "200 gives an empty state for an unknown checkpoint",
        "404 unknown thread",
        "422 bad thread id",
    ),
}
