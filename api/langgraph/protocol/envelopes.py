"""Read commands out of their envelopes, and put answers and refusals into theirs."""

from dataclasses import dataclass
from typing import Any, Literal

from toolweave.api.errors import status_of
from toolweave.errors import BadRequest, ToolweaveError
from toolweave.runtime.models import JsonObject

ErrorCode = Literal[
    "invalid_argument",
    "unknown_command",
    "unknown_error",
    "no_such_run",
    "no_such_subscription",
    "no_such_interrupt",
    "no_such_checkpoint",
]
MALFORMED = "Protocol commands must include an integer id and string method."
NOT_JSON = "Protocol commands must be valid JSON."


class RefusedCommand(BadRequest):
    """A command that is not carried out; its code is one of the protocol's."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ProtocolCommand:
    """One command of a client; it knows the answer by the id."""

    id: int
    method: str
    params: JsonObject


def read_command(value: object) -> ProtocolCommand | None:
    """Read a decoded envelope {id, method, params?}; None when it is none."""
    given = value if isinstance(value, dict) else {}
    number, method, params = given.get("id"), given.get("method"), given.get("params")
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(method, str):
        return None
    return ProtocolCommand(number, method, params if isinstance(params, dict) else {})


def success(command: ProtocolCommand, result: JsonObject, applied_through: int = 0) -> JsonObject:
    """Answer a command that was carried out; `applied_through` is the last event its connection has been sent."""
    return {"type": "success", "id": command.id, "result": result, "meta": {"applied_through_seq": applied_through}}


def malformed(value: object, message: str = MALFORMED) -> JsonObject:
    """Refuse what is no command, under the id that it has, if any."""
    return refusal(value.get("id") if isinstance(value, dict) else None, "invalid_argument", message)


def refused(command: ProtocolCommand, error: ToolweaveError) -> JsonObject:
    """Refuse a command; errors that the protocol has no code for show their HTTP status."""
    if isinstance(error, RefusedCommand):
        return refusal(command.id, error.code, str(error))
    return refusal(command.id, "unknown_error", f"{status_of(error)}: {error}")


def refusal(command_id: Any, code: ErrorCode, message: str) -> JsonObject:
    """Give the envelope of an error."""
    return {"type": "error", "id": command_id, "error": code, "message": message}
