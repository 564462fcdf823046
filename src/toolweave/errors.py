"""Hold the one exception tree; an edge (HTTP, tool message) translates it in one table, a terminal shows `headline`.

Those that end runs are RuntimeErrors, too: the official server shows their texts, and hides those of other classes.

ToolweaveError
├── ConfigError                 a setting or file is wrong; names it and the fix
│   └── MissingVariable         {env:VAR} without a value and without a default
├── ModelError                  the model endpoint refused, failed or is unknown
├── ToolError                   a tool call could not be carried out
│   ├── ServerUnavailable       its server is down, misconfigured or unknown
│   │   ├── CallRefused         it was not even tried: the server is known to be down
│   │   ├── RequestDeclined     the server refuses the request for what it is
│   │   └── RetriesExhausted    it was tried as often as may be
│   ├── InvalidArguments        the tool does not take these arguments; they were not sent
│   ├── ToolTimeout             the deadline passed
│   └── ToolProtocolError       the server answered something that is not MCP
├── StageFailed                 a stage of the workflow failed
│   ├── UnknownTools            tool ids that nothing is registered under
│   ├── SelectionFailed         the model chose no request that may be sent
│   ├── ApiCallFailed           the API could not be reached or answered with an error
│   ├── FetchFailed             a page's content could not be had
│   └── ScriptFailed            no script could be made of a page
├── ScriptNotSaved              a script was written, but its file could not be
├── IterationLimitError         the agent loop reached max_iterations
├── RunAbandoned                a run's process ended too often while it executed
├── CredentialsUnreadable       the stored credentials of a run's caller cannot be decrypted
├── PersistenceError            the data folder or a database cannot be used
│   ├── DataFolderLocked        another process holds the data folder
│   └── NewerSchema             the database was written by a newer Toolweave
├── TokenStoreError             tokens for remote servers cannot be read or kept
├── SignInFailed                a person's sign-in to a remote server came to nothing
├── OutboundRefused             the outbound policy does not let a request go to its URL
├── OutboundFailed              a request that the policy lets through got no usable answer
└── RequestError                a request the API refuses
    ├── BadRequest              well-formed, but asks for what cannot be
    ├── InvalidRequest          malformed or of the wrong type
    │   └── DocumentRefused     an OpenAPI document that cannot be read
    ├── Unauthenticated         nobody says who asks
    ├── Forbidden               whoever asks may not
    ├── NotFound                no such thread, run, assistant or checkpoint
    ├── Conflict                exists already, or busy
    │   └── ClaimLost           another claim holds the thread whose checkpoints were to be written
    └── StaleRevision           changed since it was looked at
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple


class ToolweaveError(Exception):
    """Every error that Toolweave raises on purpose; `headline` begins its paragraph in a terminal."""

    headline: ClassVar[str] = "Error"


class ConfigError(ToolweaveError, RuntimeError):
    """A setting or configuration file is wrong; `source` names it, `fix` says what to do."""

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
    """The model endpoint refused, failed or is unknown; `status` is what it answered with, if it did."""

    headline = "Model error"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


CallFault = Literal["refused", "invalid_arguments", "transport", "timeout", "protocol"]


class ToolError(ToolweaveError):
    """A tool call could not be carried out; `server` and `tool` name it.

    `executed` says whether the server may have begun with it: "no" only where that is certain (D-5). `outcome` is what
    call records name it.
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
    """The call was not tried, because its server is known to be down, or never will be up (D-5)."""

    outcome = "refused"


class RequestDeclined(ServerUnavailable):
    """The server refuses the request for what it is, so that the same again is no use."""


class RetriesExhausted(ServerUnavailable):
    """Every attempt of the call failed for want of a connection (D-5)."""


class InvalidArguments(ToolError):
    """The arguments of a call are not what its tool takes; nothing was sent (T-10)."""

    outcome = "invalid_arguments"


class ToolTimeout(ToolError):
    """The deadline of a tool call passed."""

    outcome = "timeout"


class ToolProtocolError(ToolError):
    """The MCP server answered something that is not MCP."""


class StageFailed(ToolweaveError, RuntimeError):
    """A stage of the workflow failed; the text may be shown to whoever asked (W-02).

    `model_usage` lists what its model calls have used all the same.
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
    """The model chose no tool, or no request that the tool's configuration allows (W-05)."""


class ApiCallFailed(StageFailed):
    """The API could not be reached, or answered with an error (W-06); `response` is its answer where one arrived.

    `executed` is False where the API surely did not get the request, `passing` True where that may pass by itself.
    """

    def __init__(
        self, message: str, *, response: dict[str, Any] | None = None, executed: bool = True, transient: bool = False
    ) -> None:
        self.response = response
        self.executed = executed
        self.transient = transient
        super().__init__(message)


class FetchFailed(StageFailed):
    """A page's content could not be had; the text says why, and names servers and errors of tools (A-04)."""

    headline = "Fetch failed"


class ScriptFailed(StageFailed):
    """No script could be made of a page's content: the model failed, or what it wrote is none (A-04)."""

    headline = "Script failed"


class ScriptNotSaved(ToolweaveError):
    """A script was written, but its file could not be; `script` is the VideoScript."""

    headline = "Script not saved"

    def __init__(self, message: str, *, script: Any) -> None:
        self.script = script
        super().__init__(message)


class IterationLimitError(ToolweaveError, RuntimeError):
    """The agent loop asked the model `limit` times and it still wants tools (A-03)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"The agent reached its iteration limit: {limit} model calls without a final answer.")


class RunAbandoned(ToolweaveError):
    """A run was begun again after a crash too often; it is failed instead of taking the process down once more."""


class CredentialsUnreadable(ToolweaveError, RuntimeError):
    """The stored credentials of a run's caller cannot be decrypted; the run fails instead of going on without them."""


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
        """Refuse a database that has schema `seen`; `alternative` completes "Upgrade Toolweave, or …"."""
        return cls(
            f"{database} was written by a newer version of Toolweave: it has schema {found!r}, and this version knows "
            f"schemas up to {newest!r}. Nothing in it was changed. Upgrade Toolweave, or {alternative}."
        )


class SqliteFailure(NamedTuple):
    """What a failure means: `reason` completes "The todo database …", `fix` is for the owner of the file."""

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
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
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
    """Explain an error of SQLite by its code."""
    # Extended codes such as SQLITE_IOERR_WRITE begin with the primary code.
    primary = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
    return _FAILURES.get(primary, _OTHER)


class TokenStoreError(ToolweaveError):
    """The tokens for a remote server cannot be read or kept; the text says why and holds none."""

    headline = "Token store error"


class SignInFailed(ToolweaveError):
    """A person's sign-in to a remote server came to nothing; the text says at which step."""

    headline = "Sign-in failed"


class OutboundRefused(ToolweaveError):
    """The outbound policy does not let a request go to its URL; the text says why and what allows it (W-09).

    `sent` says whether a server has the request nevertheless: one that was refused as a redirect.
    """

    was_sent = False


OutboundFailure = Literal["resolve", "connect", "timeout", "transfer", "too_large", "redirects"]


class OutboundFailed(ToolweaveError):
    """A request to a URL that the outbound policy allows got no usable answer; `reason` says at which step (W-09).

    `sent` is False only where no server can have the request.
    """

    def __init__(self, message: str, *, reason: OutboundFailure) -> None:
        self.reason: OutboundFailure = reason
        self.was_sent = reason not in ("resolve", "connect")
        super().__init__(message)


class RequestError(ToolweaveError):
    """A request the API refuses; the text becomes its `detail`."""

    headline = "Request refused"


class BadRequest(RequestError):
    """The request is well-formed and asks for what cannot be (400)."""


class Unauthenticated(RequestError):
    """The request does not say who asks, or not credibly."""


class Forbidden(RequestError):
    """Whoever asks may not do this."""


class InvalidRequest(RequestError):
    """The request is malformed or of the wrong type."""


class DocumentRefused(InvalidRequest):
    """An OpenAPI document cannot be read at all; the text says why in one sentence."""


class NotFound(RequestError):
    """There is no such thread, run, assistant or checkpoint."""


class Conflict(RequestError):
    """The thing exists already, or the thread is busy."""


class ClaimLost(Conflict):
    """Another claim holds the thread by now: nothing was written to its checkpoints (R-01)."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"Thread {thread_id} was changed or deleted by another request, or belongs to a run. Nothing was written: "
            "read the thread and try again. A node changes its own thread's state by returning the change."
        )


class StaleRevision(RequestError):
    """The thing has another revision by now than the one that was to be changed (412)."""
