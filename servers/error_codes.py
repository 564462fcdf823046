"""List the codes with which tools of ours fail: one table for all our servers (C-06)."""

from dataclasses import dataclass
from typing import Literal

from toolweave.errors import ToolweaveError

ErrorType = Literal[
    "validation", "not_found", "guardrail", "access", "content", "upstream", "timeout", "unavailable", "internal"
]


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the code table: when it is used, and what the caller is told to do unless told otherwise."""

    code: str
    type: ErrorType
    meaning: str
    suggestion: str


# In the order of the documentation.
MISSING_PARAMETER = ErrorCode(
    "missing_parameter", "validation", "A required parameter is absent.", "Add the named parameter and call again."
)
UNKNOWN_PARAMETER = ErrorCode(
    "unknown_parameter", "validation", "The tool has no such parameter.", "Leave the named parameter out."
)
INVALID_PARAMETER = ErrorCode(
    "invalid_parameter",
    "validation",
    "A parameter has the wrong type, form or range.",
    "Correct the named parameter and call again.",
)
UNKNOWN_TOOL = ErrorCode(
    "unknown_tool", "not_found", "The server has no tool of that name.", "Call one of the tools that the server lists."
)
NOT_FOUND = ErrorCode("not_found", "not_found", "What the call names does not exist.", "Check the name or id.")
GUARDRAIL = ErrorCode(
    "guardrail",
    "guardrail",
    "A guardrail refused the query before it was run; the message names the rule.",
    "Ask only for what the named rule allows.",
)
FORBIDDEN_PATH = ErrorCode(
    "forbidden_path",
    "access",
    "The path is not within the folders that may be read.",
    "Use a path relative to a root, as search_files answers it.",
)
ACCESS_DENIED = ErrorCode(
    "access_denied",
    "access",
    "The operating system, or the database, does not let the server read it.",
    "Ask the operator to let the server read it, or ask for something else.",
)
FORBIDDEN_ENDPOINT = ErrorCode(
    "forbidden_endpoint",
    "access",
    "The endpoint is not among those that may be called.",
    "Use one of the endpoints that the operator allows, TOOLWEAVE_JOB_ENDPOINTS.",
)
NOT_CONFIGURED = ErrorCode(
    "not_configured",
    "unavailable",
    "The operator has not switched on what the tool needs.",
    "Ask the operator for the setting that the message names.",
)
NOT_TEXT = ErrorCode("not_text", "content", "The file is not text.", "Read text files only.")
TOO_LARGE = ErrorCode("too_large", "content", "There is more than may be read at once.", "Ask for less.")
QUERY_REFUSED = ErrorCode(
    "query_refused",
    "validation",
    "The database does not take the query, such as a text compared with a number column.",
    "Compare columns with values of their own type.",
)
QUERY_TIMEOUT = ErrorCode(
    "query_timeout",
    "timeout",
    "The database took longer than a query may and was told to stop.",
    "Filter by more, or ask for fewer rows.",
)
ENDPOINT_UNREACHABLE = ErrorCode(
    "endpoint_unreachable",
    "unavailable",
    "No connection to the endpoint, or it broke before the answer.",
    "Check that the service runs, then try again.",
)
ENDPOINT_TIMEOUT = ErrorCode(
    "endpoint_timeout",
    "timeout",
    "The endpoint did not answer in time; it may have begun with the work.",
    "See with check_job_status what became of it before you try again.",
)
ENDPOINT_ERROR = ErrorCode(
    "endpoint_error",
    "upstream",
    "The endpoint answered with an error, or with what is no job.",
    "Correct what the message names; a status of 5xx may pass by itself.",
)

TIMEOUT = ErrorCode(
    "tool_timeout", "timeout", "The tool took longer than its limit and was stopped.", "Try again, or ask for less."
)
UNAVAILABLE = ErrorCode(
    "unavailable",
    "unavailable",
    "Something the tool needs, such as its database, cannot be used.",
    "Try again in a moment.",
)
INTERNAL = ErrorCode(
    "internal_error",
    "internal",
    "The tool failed for a reason that only the server's log tells.",
    "Try again; if it fails again, look into the server's log.",
)
ERROR_CODES = tuple(row for row in list(globals().values()) if isinstance(row, ErrorCode))


class ToolFailed(ToolweaveError):
    """A tool cannot do its work, for a reason that anybody may read; the answer's envelope says it with its code."""

    def __init__(self, code: ErrorCode, message: str, suggestion: str | None = None) -> None:
        self.code = code
        self.suggestion = suggestion
        super().__init__(message)
