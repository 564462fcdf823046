"""Schema of mcp.jsonc: validate each server entry (A-06).

An entry is validated as written, and again after its variables are replaced.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from toolweave.config.documents import ConfigDocument, JsonPath, format_path, problems_in, unknown_fields, unknown_keys
from toolweave.config.outbound_allow import HEADER_NAME
from toolweave.config.settings import is_http_url
from toolweave.config.variables import holds_reference, malformed_references, template_problem
from toolweave.errors import ConfigError

Transport = Literal["stdio", "http", "sse", "in_process"]
Builtin = Literal["core"]
WrittenTransport = Literal["stdio", "http", "streamable_http", "streamable-http", "streamableHttp", "sse"]
EntryProblem = tuple[JsonPath, str]
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_SSE_PATH = re.compile(r"/sse/?$")
_CONNECTION_KEYS = ("type", "transport", "command", "args", "env", "cwd", "url", "headers", "spawn", "auth")


def _reject(is_invalid: Callable[[str], Any], message: str) -> AfterValidator:
    """Return a validator that rejects a text for which `wrong` is true."""

    def check(text: str) -> str:
        if is_invalid(text):
            raise ValueError(message)
        return text

    return AfterValidator(check)


def _reject_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - pydantic reports ValueErrors
    return value


def _expand_oauth(value: Any) -> Any:
    if isinstance(value, str):
        if value == "oauth":
            return {}
        raise ValueError("must be 'oauth' or an object; a fixed token goes into headers")
    return value


def is_protected_url(url: str) -> bool:
    """Return whether data sent to `url` is protected from eavesdropping: HTTPS, or this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in LOOPBACK_HOSTS


_UNICODE = (
    _reject(re.compile("\0").search, "must not contain a NUL character"),
    _reject(re.compile("[\ud800-\udfff]").search, "must be valid Unicode text"),
)
Text = Annotated[str, *_UNICODE]
NonEmpty = Annotated[str, _reject(lambda text: not text.strip(), "must not be empty"), *_UNICODE]
VariableName = Annotated[
    str, _reject(lambda text: not text or "=" in text, "is not a name for an environment variable"), *_UNICODE
]
HeaderName = Annotated[str, _reject(lambda text: not HEADER_NAME.fullmatch(text), "is not a name for an HTTP header")]
HeaderValue = Annotated[str, _reject(re.compile("[\r\n\0]").search, "must not contain a line break"), *_UNICODE]
ProtectedUrl = Annotated[
    str,
    _reject(
        lambda url: not (is_http_url(url) and is_protected_url(url)),
        "must be an https:// URL (http:// only on this machine)",
    ),
]


class ToolFilter(BaseModel):
    """Globs that select tools by their names without prefix."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class BreakerRules(BaseModel):
    """Circuit breaker of a server: the number of consecutive failures, and the recovery time (D-6)."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    failures: Annotated[int, BeforeValidator(_reject_boolean), Field(ge=1, le=1_000)] = 3
    recovery_s: Annotated[float, BeforeValidator(_reject_boolean), Field(gt=0, le=3_600)] = 2.0


class OAuth(BaseModel):
    """OAuth for a remote server; without a client_id Toolweave registers itself, if the server allows it.

    `issuer` is the only authorization server that may be used. Its default is the one that the server names; for
    client_credentials it is the server's own origin, because a server could otherwise choose who gets the secret.
    `redirect_port` is the port of 127.0.0.1 for the sign-in's redirect, if the client is registered with a fixed one;
    default: a free port.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    type: Literal["oauth"] = "oauth"
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: NonEmpty | None = None
    client_secret: NonEmpty | None = Field(default=None, repr=False)
    scope: NonEmpty | None = None
    issuer: ProtectedUrl | None = None
    redirect_port: Annotated[int, BeforeValidator(_reject_boolean), Field(ge=1, le=65535)] | None = None


class ServerEntry(BaseModel):
    """One entry under `mcpServers`, as Claude Desktop, Cursor, VS Code and Toolweave write it (A-06)."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True)

    type: WrittenTransport | None = None
    transport: WrittenTransport | None = None
    builtin: Builtin | None = None
    command: NonEmpty | None = None
    args: tuple[Text, ...] = ()
    env: dict[VariableName, Text] = Field(default_factory=dict)
    cwd: NonEmpty | None = None
    url: NonEmpty | None = None
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    enabled: bool | None = None
    disabled: bool | None = None
    tools: ToolFilter = ToolFilter()
    prefix: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{0,64}$")
    timeout_s: Annotated[float, BeforeValidator(_reject_boolean), Field(gt=0, le=86_400)] = 5.0
    max_concurrency: Annotated[int, BeforeValidator(_reject_boolean), Field(ge=1)] | None = None
    approve: tuple[str, ...] = ()
    elicit: bool = False
    spawn: bool = False
    approve_destructive: bool = False
    breaker: BreakerRules = BreakerRules()
    max_result_chars: Annotated[int, BeforeValidator(_reject_boolean), Field(ge=200)] = 40_000
    auth: Annotated[OAuth | None, BeforeValidator(_expand_oauth)] = None

    def is_enabled(self) -> bool:
        """Return whether the server is enabled; some clients write `disabled` instead."""
        return self.enabled is not False and self.disabled is not True

    def resolved_transport(self) -> Transport:
        """Return the transport, inferred from command and URL if the entry names none."""
        if self.builtin is not None:
            return "in_process"
        written = self.type or self.transport
        if written is None:
            if self.url is None:
                return "stdio"
            return "sse" if _SSE_PATH.search(urlsplit(self.url).path) else "http"
        return "http" if written not in {"stdio", "sse"} else written


def check_written_entry(raw: dict[str, Any]) -> tuple[ServerEntry, EntryProblem | None]:
    """Validate an entry as written; values with references are validated after these are replaced.

    Returns the entry (empty if there is a problem) and the problem: (path inside the entry, expectation).
    """
    known = {key: item for key, item in raw.items() if key in ServerEntry.model_fields}
    for path in malformed_references(known):
        return ServerEntry(), (path, "contains a reference that is not of the form {env:NAME} or {env:NAME:-default}")
    problem: EntryProblem | None = None
    try:
        entry = ServerEntry.model_validate(raw)
    except ValidationError as error:
        unresolved = {
            detail["loc"][0]
            for detail in error.errors(include_url=False)
            if isinstance(detail["input"], str) and holds_reference(detail["input"])
        }
        for path, expected in problems_in(error):
            if path[0] not in unresolved:
                return ServerEntry(), (path, expected)
        entry = ServerEntry.model_validate({key: raw[key] for key in raw if key not in unresolved})
    else:
        problem = _contradiction(entry, url_known=not holds_reference(entry.url))
    return entry, problem or template_problem(known, has_headers=entry.resolved_transport() in {"http", "sse"})


def check_resolved_entry(filled: dict[str, Any]) -> tuple[ServerEntry, EntryProblem | None]:
    """Validate an entry whose references are replaced; returns as `check_written_entry`."""
    try:
        entry = ServerEntry.model_validate(filled)
    except ValidationError as error:
        return ServerEntry(), problems_in(error)[0]
    return entry, _contradiction(entry, url_known=True)


def _contradiction(entry: ServerEntry, *, url_known: bool) -> EntryProblem | None:
    if entry.enabled is not None and entry.disabled is not None:
        return ("disabled",), "means the same as enabled: keep one of them"
    if entry.type and entry.transport and entry.type != entry.transport:
        return ("transport",), "differs from type: keep one of them"
    if entry.builtin is not None:
        extra = next((key for key in _CONNECTION_KEYS if getattr(entry, key)), None)
        return ((extra,), "does not go with builtin, a server that runs in this process") if extra else None
    problem = _target_problem(entry)
    if problem is None and entry.url is not None and url_known:
        problem = _url_problem(entry.url, spawn=entry.spawn)
    if problem is None and entry.auth is not None:
        problem = _auth_problem(entry, entry.auth, url_known=url_known)
    return problem


def _target_problem(entry: ServerEntry) -> EntryProblem | None:
    transport = entry.resolved_transport()
    if entry.command is None and entry.url is None:
        return (), "needs a command (a program to start) or a url (a server to reach)"
    if transport == "stdio" and entry.command is None:
        return ("url",), "does not go with the transport stdio, which needs a command"
    if transport != "stdio" and entry.url is None:
        return ("command",), f"does not go with the transport {transport}, which needs a url"
    both = entry.command is not None and entry.url is not None
    if both and (transport == "stdio" or not entry.spawn):
        return ("url",), "goes with a command only for a server that Toolweave starts (spawn: true, not stdio)"
    if entry.spawn and not both:
        return ("spawn",), "needs both a command to start and the url that it will serve"
    return None


def _auth_problem(entry: ServerEntry, auth: OAuth, *, url_known: bool) -> EntryProblem | None:
    if entry.resolved_transport() == "stdio":
        return ("auth",), "does not go with the transport stdio: a program gets its secrets in env"
    for name in entry.headers:
        if name.lower() == "authorization":
            return ("headers", name), "does not go with auth, which sends a header of that name"
    if auth.grant == "client_credentials" and not (auth.client_id and auth.client_secret):
        return ("auth",), "needs client_id and client_secret for the grant client_credentials"
    if auth.client_secret and not auth.client_id:
        return ("auth", "client_secret"), "does not go without client_id"
    if url_known and entry.url is not None and not is_protected_url(entry.url):
        return ("url",), "must be https:// for a server with auth (http:// only on this machine)"
    return None


def _url_problem(url: str, *, spawn: bool) -> EntryProblem | None:
    if not is_http_url(url):
        return ("url",), "must be an http:// or https:// URL"
    if spawn and urlsplit(url).hostname not in LOOPBACK_HOSTS:
        return ("url",), "must be on 127.0.0.1 for a server that Toolweave starts"
    return None


SERVER_KEYS = ("mcpServers", "servers")
# Claude Code's ${NAME} is a variable, too; in the command and its arguments it may be meant for a shell or the program.
_BRACED_VARIABLE = re.compile(r"\$\{(?=[A-Z_][A-Z0-9_]*(?::-[^{}]*)?\})")
_FOREIGN_KEYS = ("inputs", "$schema")
# More unknown keys beside the servers than this are not mistakes: the file belongs to a client.
MAX_KEY_WARNINGS = 3
_SERVER_NAME = re.compile(r"(?!metrics\Z)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, repr=False)
class WrittenServer:
    """One entry of the file: `raw` has its known keys as parsed, `location` is file:line."""

    name: str
    raw: dict[str, Any]
    entry: ServerEntry
    location: str


def check_mcp_document(document: ConfigDocument) -> tuple[list[WrittenServer], list[str]]:
    """Validate every entry; return the entries in their order, and a warning for each ignored key.

    Raises:
        ConfigError: an entry is invalid; names location and fix.
    """
    top, entries = _server_entries(document)
    servers = [check_server(name, raw, document, (*top, name)) for name, raw in entries.items()]
    warnings = unknown_keys(document, (), (*SERVER_KEYS, *_FOREIGN_KEYS)) if top else []
    if len(warnings) > MAX_KEY_WARNINGS:
        warnings = [f"{document.source}: {len(warnings)} keys of another program are ignored"]
    for server in servers:
        warnings += _entry_warnings(document, (*top, server.name), server)
    return servers, warnings


def _server_entries(document: ConfigDocument) -> tuple[JsonPath, dict[str, Any]]:
    """Return the object of the entries and its path; the document itself is that object if it has entries only."""
    if not isinstance(document.value, dict):
        raise ConfigError("must be an object.", source=document.locate(()), fix='Write {"mcpServers": {}} at least.')
    found = [key for key in SERVER_KEYS if key in document.value]
    if not found and document.value and all(map(is_entry, document.value.values())):
        return (), document.value
    if len(found) != 1:
        problem = "has both mcpServers and servers." if found else "has neither mcpServers nor servers."
        fix = 'Keep the servers under one key: {"mcpServers": {"name": {…}}}.'
        raise ConfigError(problem, source=document.locate(()), fix=fix)
    entries = document.value[found[0]]
    if not isinstance(entries, dict):
        place = document.locate((found[0],))
        raise ConfigError(f"{found[0]} must be an object.", source=place, fix='Write {"name": {…}, …}.')
    return (found[0],), entries


def is_entry(value: Any) -> bool:
    """Return whether a value looks like the entry of a server."""
    return isinstance(value, dict) and not value.keys().isdisjoint(("command", "url"))


def check_server(name: str, raw: Any, document: ConfigDocument, path: JsonPath) -> WrittenServer:
    """Validate the entry at `path` of a document.

    Raises:
        ConfigError: the name or the entry is invalid; names location and fix.
    """
    place = document.locate(path)
    if not _SERVER_NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name for a server.",
            source=place,
            fix="Use 1 to 64 letters, digits, '_', '-' or '.', the first one a letter or digit, but not 'metrics': "
            "/servers/metrics is a page of its own.",
        )
    if not isinstance(raw, dict):
        raise ConfigError(f"server {name!r} must be an object.", source=place, fix="Write {…} with command or url.")
    plain = {key: raw[key] for key in ("env", "url", "headers") if key in raw}
    raw = raw | json.loads(_BRACED_VARIABLE.sub("{env:", json.dumps(plain)))
    entry, problem = check_written_entry(raw)
    if problem is not None:
        inside, expected = problem
        subject = f"server {name!r}: {format_path(inside)}" if inside else f"server {name!r}"
        raise ConfigError(f"{subject} {expected}.", source=document.locate((*path, *inside)), fix="Correct the entry.")
    known = {key: item for key, item in raw.items() if key in ServerEntry.model_fields}
    return WrittenServer(name, known, entry, place)


def _entry_warnings(document: ConfigDocument, path: JsonPath, server: WrittenServer) -> list[str]:
    owner = f"server {server.name!r}: "
    warnings = unknown_fields(document, path, ServerEntry, owner=owner)
    if not server.entry.spawn:
        unused = ("headers",) if server.entry.resolved_transport() == "stdio" else ("args", "env", "cwd")
        warnings += [
            f"{document.locate((*path, key))}: {owner}{key} is ignored by this transport"
            for key in unused
            if key in server.raw
        ]
    return warnings
