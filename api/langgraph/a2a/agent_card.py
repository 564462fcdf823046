"""Describe an assistant as an A2A agent (langgraph_api.md section 8)."""

from toolweave.runtime.models import Assistant, JsonObject

MODES = ["application/json", "text/plain"]
HISTORY_SCOPE_HEADER = "LangGraph-A2A-History-Scope"
SCOPES = ("context", "task")
HISTORY_SCOPE: JsonObject = {
    "uri": "https://langchain.com/a2a/extensions/history-scope/v1",
    "description": "Choose task-only or full-context response history",
    "required": False,
    "params": {
        "header": HISTORY_SCOPE_HEADER,
        "values": list(SCOPES),
        "default": SCOPES[0],
        "methods": ["SendMessage", "GetTask", "ListTasks"],
    },
}


def agent_card(assistant: Assistant, schema: JsonObject, *, base_url: str, version: str) -> JsonObject:
    """Give the card; `schema` is that of the graph's input, `base_url` where this server was asked."""
    url = f"{base_url.rstrip('/')}/a2a/{assistant.assistant_id}"
    description = assistant.description or f"{assistant.name} assistant"
    fields = sorted(schema.get("properties", {}))
    return {
        "name": assistant.name,
        "description": description,
        "url": url,
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "stateTransitionHistory": False,
            "extensions": [HISTORY_SCOPE],
        },
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [
            {
                "id": f"{assistant.assistant_id}-main",
                "name": f"{assistant.name} Capabilities",
                "description": description,
                "tags": ["assistant", "langgraph"],
                "examples": [],
                "inputModes": MODES,
                "outputModes": MODES,
                "metadata": {
                    "inputSchema": {
                        "required": schema.get("required", []),
                        "properties": fields,
                        "supportsA2A": "messages" in fields,
                    }
                },
            }
        ],
        "version": version,
    }
