"""Gather all schemas under the names by which requests, /openapi.json and $refs know them."""

from toolweave.api.langgraph.json_schema import BodySchema
from toolweave.api.langgraph.schemas.assistants import ASSISTANTS
from toolweave.api.langgraph.schemas.crons import CRONS
from toolweave.api.langgraph.schemas.fields import ANY, BOOLEAN, OBJECT, STRING, Schema, body
from toolweave.api.langgraph.schemas.json_rpc import JSON_RPC
from toolweave.api.langgraph.schemas.protocol import PROTOCOL
from toolweave.api.langgraph.schemas.runs import RUNS
from toolweave.api.langgraph.schemas.store import STORE
from toolweave.api.langgraph.schemas.threads import THREADS

COMPONENTS: Schema = {
    **ASSISTANTS,
    **THREADS,
    **RUNS,
    **PROTOCOL,
    **CRONS,
    **STORE,
    **JSON_RPC,
    "Any": {**ANY, "description": "Any JSON: the values of a run, or {__error__: {error, message}}."},
    "Count": {"type": "integer", "minimum": 0},
    "Ok": body({"ok": BOOLEAN, "services": OBJECT}, description="The server is up."),
    "Info": body(
        {"version": STRING, "langgraph_py_version": STRING, "flags": OBJECT, "host": OBJECT},
        description="What this server is and can do.",
    ),
    "Metrics": body(
        {"queue": OBJECT, "api": OBJECT, "workers": OBJECT}, description="What the server has done and has to do."
    ),
    "ErrorResponse": body({"detail": STRING}, required=("detail",), description="What went wrong."),
}


def body_schema(name: str) -> BodySchema:
    """Compile the schema of a request body."""
    return BodySchema(name, COMPONENTS)
