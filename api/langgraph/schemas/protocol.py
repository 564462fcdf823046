"""Schemas of the newer protocol. Its handlers check by themselves: the protocol has refusals of its own."""

from toolweave.api.langgraph.schemas.fields import ANY, OBJECT, STRING, Schema, body, list_of, one_of

INTEGER: Schema = {"type": "integer"}
_CHANNELS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": STRING,
    "description": "values, updates, messages, tools, custom, custom:<name>, lifecycle, input, tasks, checkpoints",
}

PROTOCOL: Schema = {
    "ProtocolCommand": body(
        {"id": INTEGER, "method": STRING, "params": OBJECT},
        required=("id", "method"),
        description="run.start, input.respond, agent.getTree, subscription.subscribe, subscription.unsubscribe.",
    ),
    "ProtocolAnswer": body(
        {
            "type": one_of("success", "error"),
            "id": INTEGER,
            "result": OBJECT,
            "error": STRING,
            "message": STRING,
            "meta": OBJECT,
        },
        required=("type", "id"),
        description="What came of a command: its result, or the code and text of an error.",
    ),
    "ProtocolRefusal": body(
        {"type": one_of("error"), "id": ANY, "error": STRING, "message": STRING, "detail": STRING},
        description="What is no command; `detail` alone when it is not even JSON.",
    ),
    "EventStreamRequest": body(
        {
            "channels": _CHANNELS,
            "namespaces": list_of(list_of(STRING)),
            "depth": {**INTEGER, "minimum": 0},
            "since": {**INTEGER, "minimum": 0},
        },
        required=("channels",),
        description="Which of a thread's events to send, and after which one.",
    ),
}
