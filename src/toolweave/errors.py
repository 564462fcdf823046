"""Define all exceptions of Toolweave; each edge (HTTP, tool message) translates them in one table.

A terminal shows `headline`. Errors that end runs are RuntimeErrors, too: the official server shows the texts of
RuntimeErrors and hides those of other classes.

ToolweaveError
├── ConfigError                 a setting or file is wrong; names it and the fix
│   └── MissingVariable         {env:VAR} without a value and without a default
├── ModelError                  the model endpoint refused, failed or is unknown
├── ToolError                   a tool call could not be carried out
│   ├── ServerUnavailable       its server is down, misconfigured or unknown
│   │   ├── CallRefused         it was not attempted: the server is known to be down
│   │   ├── RequestDeclined     the server rejected the request; a retry would fail again
│   │   └── RetriesExhausted    the last attempt failed
│   ├── InvalidArguments        the arguments do not match the tool's schema; they were not sent
│   ├── ToolTimeout             the call timed out
│   └── ToolProtocolError       the server's response is not valid MCP
├── StageFailed                 a stage of the workflow failed
│   ├── UnknownTools            no tool is registered under these ids
│   ├── SelectionFailed         the model chose no valid request
│   ├── ApiCallFailed           the API could not be reached or returned an error
│   ├── FetchFailed             a page could not be fetched
│   └── ScriptFailed            no script could be generated from a page
├── ScriptNotSaved              a script was generated, but its file could not be written
├── IterationLimitError         the agent loop reached max_iterations
├── RunAbandoned                a run's process crashed too often while it executed
├── CredentialsUnreadable       the stored credentials of a run's caller cannot be decrypted
├── PersistenceError            the data folder or a database cannot be used
│   ├── DataFolderLocked        another process holds the data folder
│   └── NewerSchema             the database was written by a newer Toolweave
├── TokenStoreError             tokens for remote servers cannot be read or stored
├── SignInFailed                a user's sign-in to a remote server failed
├── OutboundRefused             the outbound policy does not allow a request to its URL
├── OutboundFailed              an allowed request got no usable response
└── RequestError                the API refuses a request
    ├── BadRequest              well-formed, but impossible
    ├── InvalidRequest          malformed or of the wrong type
    │   └── DocumentRefused     an OpenAPI document that cannot be read
    ├── Unauthenticated         the caller is unknown
    ├── Forbidden               the caller has no permission
    ├── NotFound                no such thread, run, assistant or checkpoint
    ├── Conflict                exists already, or busy
    │   └── ClaimLost           another claim holds the thread
    └── StaleRevision           changed since the caller read it
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple


class ToolweaveError(Exception):
    """The base of all errors that Toolweave raises; a terminal shows `headline` before the text."""

    headline: ClassVar[str] = "Error"


class ConfigError(ToolweaveError, RuntimeError):
    """A setting or configuration file is wrong; `source` names it, `fix` is the advice."""

    headline = "Configuration error"

    def __init__(self, message: str, *, source: str | None = None, fix: str | None = None) -> None:
        self.message = message
        self.source = source
        self.fix = fix
        parts = (f"{source}: {message}" if source else message, fix)
        super().__init__(" ".join(part for part in parts if part))


class MissingVariable(ConfigError):
    """One or more {env:VAR} references have neither a value nor a default."""

    def __init__(self, names: tuple[str, ...], *, source: str | None = None) -> None:
        self.names = names
        listed = ", ".join(names)
        missing = f"environment variable {listed} is" if len(names) == 1 else f"environment variables {listed} are"
        super().__init__(
            f"{missing} not set.", source=source, fix="Set what is missing, or give a default: {env:NAME:-default}."
        )


class ModelError(ToolweaveError, RuntimeError):
    """The model endpoint refused, failed or is unknown; `status` is its HTTP status, if it responded."""

    headline = "Model error"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


CallFault = Literal["refused", "invalid_arguments", "transport", "timeout", "protocol"]


class ToolError(ToolweaveError):
    """A tool call could not be carried out; `server` and `tool` name it.

    `executed` is "no" if the server certainly did not start the call, else "maybe" (D-5). `outcome` is the name in call
    records.
    """

    headline = "MCP server error"
    outcome: ClassVar[CallFault] = "protocol"

    def __init__(
        self, message: str, *, server: str, tool: str | None = None, executed: Literal["no", "maybe"] = "maybe"
    ) -> None:
        self.server = server
        self.tool = tool
        self.executed: Literal["no", "maybe"] = executed
        super().__init__(message)


class ServerUnavailable(ToolError):
    """The tool's MCP server is down, misconfigured, disabled or unknown."""

    outcome: ClassVar[CallFault] = "transport"


class CallRefused(ServerUnavailable):
    """The call was not attempted, because its server is known to be down or unusable (D-5)."""

    outcome = "refused"


class RequestDeclined(ServerUnavailable):
    """The server rejected the request; the same request would fail again."""


class RetriesExhausted(ServerUnavailable):
    """Every attempt of the call failed without a connection (D-5)."""


class InvalidArguments(ToolError):
    """The arguments of a call do not match its tool's schema; nothing was sent (T-10)."""

    outcome = "invalid_arguments"


class ToolTimeout(ToolError):
    """A tool call timed out."""

    outcome = "timeout"


class ToolProtocolError(ToolError):
    """The MCP server's response is not valid MCP."""


class StageFailed(ToolweaveError, RuntimeError):
    """A stage of the workflow failed; the text may be shown to the caller (W-02).

    `model_usage` lists the token usage of the stage's model calls.
    """

    def __init__(self, message: str, *, model_usage: Sequence[Any] = ()) -> None:
        self.model_usage = list(model_usage)
        super().__init__(message)


class UnknownTools(StageFailed):
    """No tool is registered under these ids (W-03)."""

    def __init__(self, tool_ids: tuple[str, ...]) -> None:
        self.tool_ids = tool_ids
        super().__init__(f"There is no tool registered as {', '.join(tool_ids)}.")


class SelectionFailed(StageFailed):
    """The model chose no tool, or a request that the tool's configuration does not allow (W-05)."""


class ApiCallFailed(StageFailed):
    """The API could not be reached, or returned an error (W-06); `response` is its response, if there is one.

    `executed` is False if the API certainly did not get the request, `transient` True if a retry may succeed.
    """

    def __init__(
        self, message: str, *, response: dict[str, Any] | None = None, executed: bool = True, transient: bool = False
    ) -> None:
        self.response = response
        self.executed = executed
        self.transient = transient
        super().__init__(message)


class FetchFailed(StageFailed):
    """A page could not be fetched; the text has the reason, with the servers and errors of tools (A-04)."""

    headline = "Fetch failed"


class ScriptFailed(StageFailed):
    """No script could be generated from a page: the model failed, or its output is not a valid script (A-04)."""

    headline = "Script failed"


class ScriptNotSaved(ToolweaveError):
    """A script was generated, but its file could not be written; `script` is the VideoScript."""

    headline = "Script not saved"

    def __init__(self, message: str, *, script: Any) -> None:
        self.script = script
        super().__init__(message)


class IterationLimitError(ToolweaveError, RuntimeError):
    """The agent loop called the model `limit` times without a final answer (A-03)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"The agent reached its iteration limit: {limit} model calls without a final answer.")


class RunAbandoned(ToolweaveError):
    """A run was restarted after a crash too often; it fails instead of crashing the process again."""


class CredentialsUnreadable(ToolweaveError, RuntimeError):
    """The stored credentials of a run's caller cannot be decrypted; the run does not continue without them."""


class PersistenceError(ToolweaveError):
    """The data folder or a database in it cannot be used."""

    headline = "Database error"


class DataFolderLocked(PersistenceError):
    """Another process holds the data folder."""

    headline = "Data folder in use"


class NewerSchema(PersistenceError):
    """The database was written by a newer Toolweave."""

    headline = "Database too new"

    @classmethod
    def for_database(cls, database: str, found: object, newest: object, alternative: str) -> "NewerSchema":
        """Return the error for a database with schema `found`; `alternative` completes "Upgrade Toolweave, or …"."""
        return cls(
            f"{database} was written by a newer version of Toolweave: it has schema {found!r}, and this version knows "
            f"schemas up to {newest!r}. Nothing in it was changed. Upgrade Toolweave, or {alternative}."
        )


class SqliteFailure(NamedTuple):
    """The meaning of an SQLite error: `reason` completes "The todo database …", `fix` is for the file's owner."""

    reason: str
    fix: str


_BUSY = SqliteFailure(
    "is busy: another program is writing to it", "Another program holds it for longer than 5 s; close that program."
)
DISK_FULL = SqliteFailure(
    "cannot grow: the disk is full", "Free space on that disk; what was not stored is reported as failed."
)
CANNOT_OPEN = SqliteFailure("cannot be opened", "Make its folder exist and be writable for this user.")
_OTHER = SqliteFailure("cannot be used", "Check the file, its folder and the disk.")
_FAILURES = {
    **dict.fromkeys(("SQLITE_BUSY", "SQLITE_LOCKED"), _BUSY),
    "SQLITE_FULL": DISK_FULL,
    "SQLITE_READONLY": SqliteFailure("is read-only", "Make the file and its folder writable for this user."),
    "SQLITE_CANTOPEN": CANNOT_OPEN,
    "SQLITE_NOTADB": SqliteFailure(
        "is not a SQLite database", "It is damaged or another program's file. Move it away, or restore a backup."
    ),
    "SQLITE_CORRUPT": SqliteFailure("is damaged", "It is damaged. Move it away, or restore a backup."),
    "SQLITE_IOERR": SqliteFailure(
        "cannot be read or written: the disk reports an error", "Check the disk and its free space."
    ),
}


def sqlite_failure(error: Exception) -> SqliteFailure:
    """Return the meaning of an SQLite error code."""
    # Extended codes such as SQLITE_IOERR_WRITE begin with the primary code.
    primary = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
    return _FAILURES.get(primary, _OTHER)


class TokenStoreError(ToolweaveError):
    """The tokens for a remote server cannot be read or stored; the text has the reason, but no token."""

    headline = "Token store error"


class SignInFailed(ToolweaveError):
    """A user's sign-in to a remote server failed; the text names the step."""

    headline = "Sign-in failed"


class OutboundRefused(ToolweaveError):
    """The outbound policy does not allow a request to its URL; the text has the reason and the fix (W-09).

    `was_sent` is True if the refused URL is a redirect's: a server has received the original request.
    """

    was_sent = False


OutboundFailure = Literal["resolve", "connect", "timeout", "transfer", "too_large", "redirects"]


class OutboundFailed(ToolweaveError):
    """An allowed outbound request got no usable response; `reason` names the step (W-09).

    `was_sent` is False only if no server can have received the request.
    """

    def __init__(self, message: str, *, reason: OutboundFailure) -> None:
        self.reason: OutboundFailure = reason
        self.was_sent = reason not in ("resolve", "connect")
        super().__init__(message)


class RequestError(ToolweaveError):
    """The API refuses a request; the text becomes the response's `detail`."""

    headline = "Request refused"


class BadRequest(RequestError):
    """The request is well-formed, but impossible (400)."""


class Unauthenticated(RequestError):
    """The request has no valid credentials."""


class Forbidden(RequestError):
    """The caller has no permission for this."""


class InvalidRequest(RequestError):
    """The request is malformed or of the wrong type."""


class DocumentRefused(InvalidRequest):
    """An OpenAPI document cannot be read; the text has the reason in one sentence."""


class NotFound(RequestError):
    """There is no such thread, run, assistant or checkpoint."""


class Conflict(RequestError):
    """The resource exists already, or the thread is busy."""


class ClaimLost(Conflict):
    """Nothing was written: the claim on the thread has ended, or another writer has changed the thread (R-01)."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"Thread {thread_id} was changed or deleted by another request, or belongs to a run. Nothing was written: "
            "read the thread and try again. A node changes its own thread's state by returning the change."
        )


class StaleRevision(RequestError):
    """The resource no longer has the revision that the request names (412)."""
