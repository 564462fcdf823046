"""Schemas of JSON-RPC messages, which MCP and A2A speak."""

from toolweave.api.langgraph.schemas.fields import ANY, OBJECT, STRING, Schema, body, list_of

_ID: Schema = {"type": ["string", "number", "null"]}

JSON_RPC: Schema = {
    "JsonRpcMessage": body(
        {"jsonrpc": STRING, "id": _ID, "method": STRING, "params": OBJECT},
        required=("jsonrpc", "method"),
        description="A JSON-RPC 2.0 request, or a notification when it has no id.",
    ),
    "JsonRpcAnswer": body(
        {"jsonrpc": STRING, "id": _ID, "result": ANY, "error": OBJECT},
        required=("jsonrpc",),
        description="The result of a JSON-RPC 2.0 request, or the error.",
    ),
    "AgentCard": body(
        {
            "name": STRING,
            "description": STRING,
            "url": STRING,
            "version": STRING,
            "supportedInterfaces": list_of(OBJECT),
            "capabilities": OBJECT,
            "defaultInputModes": list_of(STRING),
            "defaultOutputModes": list_of(STRING),
            "skills": list_of(OBJECT),
        },
        required=("name", "url", "version", "capabilities", "skills"),
        description="An assistant as an A2A agent.",
    ),
}
