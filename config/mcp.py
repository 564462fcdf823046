"""Find and load mcp.jsonc: the MCP servers and how to reach them, with variables replaced (A-06)."""

import json
import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolweave.config import mcp_entry
from toolweave.config.documents import ConfigDocument, format_path
from toolweave.config.jsonc import read_jsonc
from toolweave.config.settings import Settings, load_settings
from toolweave.config.variables import HeaderTemplate, env_values, fill_references, find_unresolved, header_templates
from toolweave.errors import ConfigError, MissingVariable
from toolweave.extras import require_extra

SHIPPED_MCP_CONFIG = Path(__file__).parent / "mcp.servers.jsonc"
# In the data folder; `toolweave servers add` creates it.
MCP_CONFIG_FILE_NAME = "mcp.jsonc"


@dataclass(frozen=True, slots=True)
class McpConfigLocation:
    """The mcp.jsonc in use and the reason; `edit_path` is the user's own file, which may not exist yet.

    `is_shipped`: it is the file that comes with Toolweave, which is never edited.
    """

    path: Path
    edit_path: Path
    reason: str
    is_shipped: bool = False

    def describe(self) -> str:
        """Return the path, of the shipped file its name, and the reason."""
        return f"{self.path.name if self.is_shipped else self.path} ({self.reason})"


def find_mcp_config(settings: Settings) -> McpConfigLocation:
    """Choose the file: TOOLWEAVE_MCP_CONFIG, else mcp.jsonc in the data folder if present, else the shipped one (C-09).

    A path in the setting is used even if the file does not exist, and so is a broken link in the data folder: using
    another file would hide the mistake.
    """
    named, own = settings.mcp_config, settings.data_dir / MCP_CONFIG_FILE_NAME
    if named is not None:
        return McpConfigLocation(named, named, "set by TOOLWEAVE_MCP_CONFIG, --mcp or --config")
    if os.path.lexists(own):
        return McpConfigLocation(own, own, "found in the data folder")
    return McpConfigLocation(SHIPPED_MCP_CONFIG, own, "the one that comes with Toolweave", is_shipped=True)


PASSED_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""Certificates and proxies: the programs of servers get these variables in addition to their entry's `env`."""

# The source in messages for servers that a Python caller passes, not a file.
_INLINE = "mcp_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """One MCP server with its variables replaced; `repr` hides values that may be secret.

    `prefix` None means `<name>_`. `raw` has the known keys of the entry as written. `misconfigured` is the reason why
    the server cannot be used, without any value; the values are then as written, and so are those of a disabled server.
    `secret_values` are the values of all variables that the entry refers to: they must not be logged. `caller_headers`
    are the headers whose values depend on the caller; they are not in `headers`. A `builtin` server runs in this
    process with `settings`.
    """

    name: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    transport: mcp_entry.Transport
    builtin: mcp_entry.Builtin | None = None
    settings: Settings | None = field(default=None, repr=False)
    command: str | None = field(default=None, repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    caller_headers: dict[str, HeaderTemplate] = field(default_factory=dict, repr=False)
    enabled: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prefix: str | None = None
    timeout_s: float = 5.0
    max_concurrency: int | None = None
    approve: tuple[str, ...] = ()
    elicit: bool = False
    spawn: bool = False
    approve_destructive: bool = False
    breaker: mcp_entry.BreakerRules = field(default_factory=mcp_entry.BreakerRules)
    max_result_chars: int = 40_000
    auth: mcp_entry.OAuth | None = field(default=None, repr=False)
    misconfigured: str | None = None
    secret_values: tuple[str, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The servers of a file in its order, and warnings about ignored keys."""

    servers: tuple[McpServerConfig, ...]
    path: Path
    warnings: tuple[str, ...] = ()


def load_mcp_config(
    source: Path | ConfigDocument,
    environ: Mapping[str, str],
    *,
    strict: bool = False,
    settings: Settings | None = None,
    enable: Collection[str] = (),
) -> McpConfig:
    """Load an mcp.jsonc file or its content, and replace {env:VAR} references from `environ`.

    A server with missing or invalid variables becomes `misconfigured`; with `strict` the load fails. Builtin servers
    use `settings`, by default those in `environ`. The servers in `enable` count as enabled, whatever their entries say.

    Raises:
        ConfigError: the file is absent, not JSON5 or breaks the schema; names file, line and fix, no value.
        MissingVariable: strict only; names every variable without a value.
    """
    document = read_jsonc(source) if isinstance(source, Path) else source
    path = Path(document.source)
    folder = path.absolute().parent
    written, warnings = mcp_entry.check_mcp_document(document)
    servers = tuple(_resolve_server(each, environ, folder, settings, enable=each.name in enable) for each in written)
    bad = [(server, each.location) for server, each in zip(servers, written, strict=True) if server.misconfigured]
    if strict and bad:
        missing = {name: None for server, _ in bad for name in find_unresolved(server.raw, environ).missing}
        if missing:
            raise MissingVariable(tuple(missing), source=str(path))
        server, place = bad[0]
        raise ConfigError(f"server {server.name!r}: {server.misconfigured}", source=place)
    return McpConfig(servers=servers, path=path, warnings=tuple(warnings))


def mcp_from_dict(
    written: Mapping[str, Any], environ: Mapping[str, str], *, settings: Settings | None = None
) -> McpConfig:
    """Parse the content of an mcp.jsonc file like a strict load; relative paths start at the working directory.

    Raises:
        ConfigError: as `load_mcp_config`; also for values that are not valid JSON.
        MissingVariable: as `load_mcp_config`.
    """
    try:
        plain = json.loads(json.dumps(written))
    except (TypeError, ValueError, RecursionError):
        raise ConfigError("is not valid JSON.", source=_INLINE, fix="Pass the content of an mcp.jsonc file.") from None
    return load_mcp_config(ConfigDocument(plain, {}, _INLINE), environ, strict=True, settings=settings)


McpServers = McpConfig | Mapping[str, Any] | Sequence[McpServerConfig] | str | Path
"""MCP servers as embedders name them: a loaded file, its path or content, the entries in it, or McpServerConfigs."""


def read_servers(source: object) -> tuple[McpServerConfig, ...] | None:
    """Return the servers that a McpServers names; None if `source` is something else.

    References to variables are replaced from the environment.

    Raises:
        ConfigError: as `load_mcp_config`.
        MissingVariable: as `load_mcp_config`.
    """
    if isinstance(source, McpConfig):
        return source.servers
    if isinstance(source, str | Path):
        settings = load_settings()
        path = Path(source).expanduser()
        return load_mcp_config(path, mcp_variables(settings), strict=True, settings=settings).servers
    entries = tuple(source.values() if isinstance(source, Mapping) else source if isinstance(source, Sequence) else ())
    if entries and all(isinstance(entry, McpServerConfig) for entry in entries):
        return entries
    if not isinstance(source, Mapping):
        return None
    settings = load_settings()
    written = source if any(key in source for key in mcp_entry.SERVER_KEYS) else {"mcpServers": source}
    return mcp_from_dict(written, mcp_variables(settings), settings=settings).servers


def served_mcp_config(
    settings: Settings, environ: Mapping[str, str] = os.environ, *, enable: Collection[str] = ()
) -> McpConfig:
    """Load the mcp.jsonc in use (`find_mcp_config`), with the `TOOLWEAVE_TODO_…` overrides applied (T-01).

    The servers in `enable` count as enabled.

    Raises:
        ConfigError: as `load_mcp_config`.
    """
    filled = mcp_variables(settings, environ)
    config = load_mcp_config(find_mcp_config(settings).path, filled, settings=settings, enable=enable)
    servers = tuple(_with_overrides(server, settings) if server.name == "todo" else server for server in config.servers)
    return replace(config, servers=servers)


def mcp_variables(settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables for mcp.jsonc: the environment, and those that Toolweave sets itself."""
    data_dir = settings.data_dir.absolute()
    return {
        "TOOLWEAVE_PYTHON": sys.executable,
        **{name: value for name, value in environ.items() if value},
        "TOOLWEAVE_DATA_DIR": str(data_dir),
        "TOOLWEAVE_TODO_DATABASE_URL": settings.todo_database_url or f"sqlite+aiosqlite:///{data_dir / 'todo.db'}",
    }


def _with_overrides(todo: McpServerConfig, settings: Settings) -> McpServerConfig:
    if settings.todo_command:
        command, *args = shlex.split(settings.todo_command)
        replaced = replace(todo, transport="stdio", command=command, args=tuple(args), spawn=False)
        todo = replace(replaced, url=None, headers={}, caller_headers={}, auth=None)
    timeout_s = settings.todo_timeout_s or todo.timeout_s
    return replace(todo, env={**todo.env, **settings.todo_env}, timeout_s=timeout_s)


def _resolve_server(
    written: mcp_entry.WrittenServer,
    environ: Mapping[str, str],
    folder: Path,
    settings: Settings | None,
    *,
    enable: bool,
) -> McpServerConfig:
    unresolved, raw = _server_config(written, written.entry), written.raw
    if enable:
        raw = {**{key: item for key, item in raw.items() if key != "disabled"}, "enabled": True}
    flags = {key: raw[key] for key in ("enabled", "disabled") if key in raw}
    problem = find_unresolved(flags, environ).problem
    if problem is None:
        checked, _ = mcp_entry.check_resolved_entry({"command": "-", **fill_references(flags, environ)})
        if not checked.is_enabled():
            return replace(unresolved, enabled=False)
        problem = find_unresolved(raw, environ).problem
    if problem is not None:
        return replace(unresolved, misconfigured=problem)
    entry, invalid = mcp_entry.check_resolved_entry(fill_references(raw, environ))
    if invalid is not None:
        location, expected = invalid
        subject = f"{format_path(location)} {expected}" if location else f"the entry {expected}"
        return replace(unresolved, misconfigured=f"with its variables filled in, {subject}.")
    templates = header_templates(raw, environ)
    server = replace(
        _server_config(written, entry),
        headers={header: text for header, text in entry.headers.items() if header not in templates},
        caller_headers=templates,
        secret_values=env_values(raw, environ),
    )
    try:
        if server.auth is not None or server.builtin is not None:
            require_extra("server")
        if server.builtin is not None:
            return replace(server, settings=settings or load_settings(environ))
    except ConfigError as error:
        return replace(server, misconfigured=str(error))
    return _with_paths(_with_passed_variables(server, environ) if server.command else server, folder)


def _with_passed_variables(server: McpServerConfig, environ: Mapping[str, str]) -> McpServerConfig:
    """Add `PASSED_VARIABLES`; a proxy's URL with a password is a secret."""
    passed = {name: environ[name] for name in PASSED_VARIABLES if environ.get(name)}
    secrets = tuple(value for value in passed.values() if "@" in value)
    return replace(server, env=passed | server.env, secret_values=(*server.secret_values, *secrets))


def _with_paths(server: McpServerConfig, folder: Path) -> McpServerConfig:
    """Resolve cwd against the file's folder, and a command that is a relative path against cwd."""
    cwd = str(folder / server.cwd) if server.cwd else None
    command = server.command
    if command and os.sep in command:
        command = os.path.normpath(Path(cwd or folder) / command)
    return replace(server, cwd=cwd, command=command)


def _server_config(written: mcp_entry.WrittenServer, entry: mcp_entry.ServerEntry) -> McpServerConfig:
    values = {
        key: getattr(entry, key) for key in McpServerConfig.__slots__ if key in mcp_entry.ServerEntry.model_fields
    }
    values |= {"name": written.name, "raw": written.raw, "transport": entry.resolved_transport(), "enabled": True}
    return McpServerConfig(**values, include=entry.tools.include, exclude=entry.tools.exclude)
