"""List the error codes of our tools, in one table for all our servers (C-06)."""

from dataclasses import dataclass
from typing import Literal

from toolweave.errors import ToolweaveError

ErrorType = Literal[
    "validation", "not_found", "guardrail", "access", "content", "upstream", "timeout", "unavailable", "internal"
]


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the code table: what the code means, and the default suggestion to the caller."""

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
NOT_FOUND = ErrorCode("not_found", "not_found", "The item that the call names is absent.", "Check the name or id.")
GUARDRAIL = ErrorCode(
    "guardrail",
    "guardrail",
    "A guardrail refused the query before it ran; the message names the rule.",
    "Ask only for what the named rule allows.",
)
FORBIDDEN_PATH = ErrorCode(
    "forbidden_path",
    "access",
    "The path is not within the folders that may be read.",
    "Use a path relative to a root, as search_files returns it.",
)
ACCESS_DENIED = ErrorCode(
    "access_denied",
    "access",
    "The operating system or the database does not allow the server to read it.",
    "Ask the operator to allow the server to read it, or read something else.",
)
FORBIDDEN_ENDPOINT = ErrorCode(
    "forbidden_endpoint",
    "access",
    "The endpoint is not among those that may be called.",
    "Use one of the endpoints that the operator allows in TOOLWEAVE_JOB_ENDPOINTS.",
)
NOT_CONFIGURED = ErrorCode(
    "not_configured",
    "unavailable",
    "The operator has not configured what the tool needs.",
    "Ask the operator for the setting that the message names.",
)
NOT_TEXT = ErrorCode("not_text", "content", "The file is not text.", "Read text files only.")
TOO_LARGE = ErrorCode("too_large", "content", "The content is larger than one call may return.", "Ask for less.")
QUERY_REFUSED = ErrorCode(
    "query_refused",
    "validation",
    "The database rejected the query, for instance because it compares a text with a number column.",
    "Compare columns with values of their own type.",
)
QUERY_TIMEOUT = ErrorCode(
    "query_timeout",
    "timeout",
    "The query ran longer than its limit and was cancelled.",
    "Add filters, or ask for fewer rows.",
)
ENDPOINT_UNREACHABLE = ErrorCode(
    "endpoint_unreachable",
    "unavailable",
    "The server could not connect to the endpoint, or the connection broke before the answer.",
    "Check that the service runs, then try again.",
)
ENDPOINT_TIMEOUT = ErrorCode(
    "endpoint_timeout",
    "timeout",
    "The endpoint did not answer in time; it may have started the job.",
    "Check the job with check_job_status before you try again.",
)
ENDPOINT_ERROR = ErrorCode(
    "endpoint_error",
    "upstream",
    "The endpoint answered with an error, or with something that is not a job.",
    "Correct what the message names; a 5xx status may be temporary.",
)

TIMEOUT = ErrorCode(
    "tool_timeout", "timeout", "The tool took longer than its limit and was stopped.", "Try again, or ask for less."
)
UNAVAILABLE = ErrorCode(
    "unavailable",
    "unavailable",
    "Something that the tool needs, such as its database, cannot be used.",
    "Try again in a moment.",
)
INTERNAL = ErrorCode(
    "internal_error",
    "internal",
    "The tool failed; only the server's log contains the reason.",
    "Try again; if it fails again, look into the server's log.",
)
ERROR_CODES = tuple(row for row in list(globals().values()) if isinstance(row, ErrorCode))


class ToolFailed(ToolweaveError):
    """A tool call failed for a reason that the caller may read. The result's envelope contains it with its code."""

    def __init__(self, code: ErrorCode, message: str, suggestion: str | None = None) -> None:
        self.code = code
        self.suggestion = suggestion
        super().__init__(message)
