"""Behaviours of the MCP endpoint (langgraph_api.md section 8)."""

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "POST /mcp": (
        "200 agrees on a protocol version",
        "200 lists a tool for every assistant, under names that MCP allows",
        "200 runs a tool and gives its result as JSON text and as an object",
        "200 gives a failing run as a tool's error, and an interrupt in the result",
        "200 with a JSON-RPC error for what cannot be called",
        "202 for notifications and answers",
        "400 for what is no JSON-RPC message",
        "400 for clients that accept neither JSON nor events",
    ),
    "DELETE /mcp": ("404 since there are no sessions",),
}
