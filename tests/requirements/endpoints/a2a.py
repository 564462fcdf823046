"""Behaviours of the A2A endpoints (langgraph_api.md section 8)."""

DESCRIBED = "200 describes the assistant"
UNKNOWN = "400 for an unknown assistant"

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /a2a/{assistant_id}": (
        "200 runs a message and gives the finished task",
        "200 streams a task, its messages and its end",
        "200 gives a failed run as a failed task",
        "200 gives an interrupt as a task that needs input, and takes the answer",
        "200 cancels a task that runs or waits",
        "200 lists tasks by context, status and page",
        "200 with a JSON-RPC error for an invalid request",
        "202 for answers nobody waits for",
        "400 for a stream that is not accepted",
    ),
    "GET /a2a/{assistant_id}": (DESCRIBED, UNKNOWN),
    "GET /a2a/{assistant_id}/.well-known/agent-card.json": (DESCRIBED, UNKNOWN),
    "GET /.well-known/agent-card.json": (DESCRIBED, "400 without an assistant, or for an unknown one"),
}
