"""Check this installation and say what to do: `toolweave doctor`.

Settings, langgraph.json, graphs, model, databases, MCP servers, script files, registered tools, file roots, data folder
and port; no check changes anything.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import httpx
import sqlalchemy as sa
import typer
from rich.console import Console

from toolweave.api.langgraph.app import make_importable
from toolweave.api.langgraph.auth.authentication import load_auth
from toolweave.api.langgraph.custom_app import load_custom_app
from toolweave.cli.configuration import ConfigOption, DataDirOption, find_langgraph_json
from toolweave.cli.graph import registry_of
from toolweave.cli.servers import ServersConfig, survey
from toolweave.cli.serving import listening, url_of
from toolweave.cli.terminal import stdout_console, styled
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import mcp_place, served_mcp_config
from toolweave.config.script_job import named_mcp_config, named_script_settings
from toolweave.config.settings import Settings, load_settings, unknown_variables
from toolweave.errors import ConfigError, DataFolderLocked, OutboundRefused, ToolweaveError
from toolweave.nodes.chat_models import script_endpoint
from toolweave.nodes.http_tools.api_calls import credentials_of
from toolweave.nodes.model_endpoint import ModelEndpoint, chosen_endpoint
from toolweave.outbound import OutboundPolicy
from toolweave.runtime.persistence.opening import LOCK_FILE, data_folder_lock
from toolweave.runtime.persistence.schema import is_newest
from toolweave.servers.core.files.opening import Roots
from toolweave.servers.core.query.databases import open_query_database
from toolweave.servers.databases.database import has_schema, reason
from toolweave.servers.databases.engine import file_of, parse_url
from toolweave.servers.registry.repository import database_url, open_tool_registry
from toolweave.servers.registry.stored_tools import TOOLS_DATABASE, listed
from toolweave.servers.todo.database import TODO_DATABASE
from toolweave.tool_config import ToolConfig

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `toolweave doctor`: `text` says how it is, `fix` what to do. Neither ever holds a secret."""

    level: Level
    subject: str
    text: str
    fix: str | None = None


def failure(subject: str, error: ToolweaveError) -> Finding:
    """Turn an error of ours into a finding."""
    if isinstance(error, ConfigError):
        text = f"{error.source}: {error.message}" if error.source else error.message
        return Finding("fail", subject, text, error.fix)
    return Finding("fail", subject, str(error))


def guarded(subject: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass findings on; an error of ours that ends them is the last one, under this subject."""
    try:
        yield from findings
    except ToolweaveError as error:
        yield failure(subject, error)


ADDRESS_TIMEOUT_S = 2.0


def check_address(settings: Settings, *, authenticated: bool = False) -> Finding:
    """Listen there for a moment; a server of ours that already does is no failure."""
    try:
        with listening(settings, authenticated=authenticated) as sock:
            return Finding("ok", "address", f"{url_of(sock)} is free.")
    except ConfigError as error:
        url = f"http://{settings.host}:{settings.port}"
        if _serves(url):
            return Finding("warn", "address", f"a server is already running at {url}.", error.fix)
        return failure("address", error)


def _serves(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/ok", timeout=ADDRESS_TIMEOUT_S, trust_env=False).is_success)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def check_settings(data_dir: Path | None) -> tuple[list[Finding], Settings | None]:
    """Read the settings; variables of ours that set nothing are probably misspelt."""
    findings = [
        Finding("warn", "settings", f"the environment variable {name} sets nothing.", "Correct its name, or unset it.")
        for name in unknown_variables()
    ]
    try:
        settings = load_settings(data_dir=data_dir)
    except ToolweaveError as error:
        return [*findings, failure("settings", error)], None
    return [*findings, Finding("ok", "settings", "every variable has a value of the right form.")], settings


def check_langgraph_json(config: Path | None) -> tuple[list[Finding], LangGraphJson | None]:
    """Read langgraph.json and set its variables, as a server would."""
    try:
        served = find_langgraph_json(config)
    except ToolweaveError as error:
        return [failure("langgraph.json", error)], None
    served.apply_env()
    warnings = [Finding("warn", "langgraph.json", f"{warning}.") for warning in served.warnings]
    where = str(served.path) if served.path.exists() else "there is none here: Toolweave's own graphs are served"
    return [*warnings, Finding("ok", "langgraph.json", f"{where}.")], served


def check_graphs(served: LangGraphJson) -> Iterator[Finding]:
    """Import every graph and the application beside them."""
    make_importable(served)
    for name in served.graphs:
        yield from guarded("graphs", _graph(served, name))
    for subject, load in (("http.app", load_custom_app), ("auth", load_auth)):
        try:
            load(served)
        except ToolweaveError as error:
            yield failure(subject, error)


def _graph(served: LangGraphJson, name: str) -> Iterator[Finding]:
    registry_of(served, name)
    yield Finding("ok", "graphs", f"{name} is {served.graphs[name].target}.")


ANOTHER = "Name another folder with --data-dir or TOOLWEAVE_DATA_DIR."


def check_data_folder(settings: Settings) -> Iterator[Finding]:
    """Say whether a server could open the data folder now."""
    folder = settings.data_dir
    if not folder.exists():
        yield _creatable(folder)
    elif not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield Finding("fail", "data folder", f"{folder} is not a folder this user may write to.", ANOTHER)
    else:
        yield _lock(folder)


def _creatable(folder: Path) -> Finding:
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("ok", "data folder", f"{folder} will be made by the first server.")
    return Finding("fail", "data folder", f"{folder} cannot be made: {parent} is not writable.", ANOTHER)


def _lock(folder: Path) -> Finding:
    try:
        if (folder / LOCK_FILE).exists():
            with data_folder_lock(folder):
                pass
        return Finding("ok", "data folder", f"{folder} is writable and not in use.")
    except DataFolderLocked as error:
        return Finding("warn", "data folder", str(error))


def check_schema(settings: Settings) -> Iterator[Finding]:
    """Say whether app.db can be read and how old its schema is; nothing where there is none."""
    path = settings.data_dir / "app.db"
    if not os.access(path, os.F_OK):
        return
    try:
        seen = _revision(path)
    except sqlite3.Error as error:
        fix = "Restore a backup, or move the file away."
        yield Finding("fail", "database", f"{path} cannot be read: {error}.", fix)
    else:
        age = "the current schema." if is_newest(path, seen) else "an older schema; the next server upgrades it."
        yield Finding("ok", "database", f"{path} has {age}")


def _revision(path: Path) -> str | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else None


FILE_ROOTS = "file roots"


def check_files(settings: Settings) -> Iterator[Finding]:
    """Say whether each folder is there and the ignore rules can be read; nothing where no folder is named."""
    if settings.file_roots:
        roots = Roots(settings.file_roots, private_folder=settings.data_dir)
        problems = roots.problems()
        for problem in problems:
            yield Finding("warn", FILE_ROOTS, problem, "Make the folder, or correct TOOLWEAVE_FILE_ROOTS.")
        if not problems:
            yield Finding("ok", FILE_ROOTS, f"{', '.join(roots.names)}.")
        Roots((), settings.file_ignore, private_folder=settings.data_dir)


MODEL_TIMEOUT_S = 5.0
REJECTED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


def check_model(settings: Settings) -> Iterator[Finding]:
    """Say which model is chosen and by which variable; ask the endpoint for its list of models."""
    endpoint = chosen_endpoint(settings)
    if endpoint is not None:
        yield Finding("ok", "model", f"{endpoint.model} at {_place(endpoint)}, because {_reason(settings)} is set.")
        yield _reached(endpoint)
    elif settings.model is not None:
        yield Finding("ok", "model", "the offline demo model, because TOOLWEAVE_MODEL says so.")
    else:
        yield Finding(
            "warn",
            "model",
            "the offline demo model, because no endpoint is configured.",
            "Set OPENROUTER_API_KEY, GEMINI_API_KEY, or OPENAI_API_KEY / OPENAI_BASE_URL with TOOLWEAVE_MODEL; "
            "TOOLWEAVE_MODEL=offline says that it is meant.",
        )


def _reason(settings: Settings) -> str:
    if settings.openrouter_api_key:
        return "OPENROUTER_API_KEY"
    if settings.gemini_api_key:
        return "GEMINI_API_KEY"
    return "OPENAI_BASE_URL" if settings.openai_base_url else "OPENAI_API_KEY"


def _place(endpoint: ModelEndpoint) -> str:
    """Name the endpoint without a user name, password or query that its URL may hold."""
    parts = urlsplit(endpoint.base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _reached(endpoint: ModelEndpoint) -> Finding:
    place = _place(endpoint)
    key = {"authorization": f"Bearer {endpoint.api_key.get_secret_value()}"}
    try:
        answer = httpx.get(f"{endpoint.base_url.rstrip('/')}/models", headers=key, timeout=MODEL_TIMEOUT_S)
    except (httpx.HTTPError, ValueError) as error:
        # The text of an error can quote the key (a header that is not ASCII).
        fix = "Check the address, the network and whether the endpoint is running."
        return Finding("fail", "model", f"{place} cannot be reached ({type(error).__name__}).", fix)
    if answer.status_code in REJECTED:
        fix = "Check the key in the variable named above."
        return Finding("fail", "model", f"{place} rejects the key ({answer.status_code}).", fix)
    return Finding("ok", "model", f"{place} answers.")


QUERIES = "query database"
CHECK = "Check that its server runs, and TOOLWEAVE_QUERY_DATABASE_URL and TOOLWEAVE_QUERY_ROLE."
READER = "Name a user who may only read (docs/postgresql.md), or set TOOLWEAVE_QUERY_ROLE to a role that may."
_WRITABLE = sa.text("""
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
        AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    )
""")


def check_todos(settings: Settings) -> Iterator[Finding]:
    """Say whether the todo database can be used where it is on a PostgreSQL; nothing is changed."""
    url = settings.todo_database_url or ""
    if not url.startswith("postgres"):
        return
    place = parse_url(url, TODO_DATABASE.setting).host or "this machine"
    there = asyncio.run(has_schema(url, TODO_DATABASE))
    text = f"PostgreSQL on {place}, {'its tables are there' if there else 'without tables yet'}."
    yield Finding("ok", TODO_DATABASE.name, text)


def check_queries(settings: Settings) -> Iterator[Finding]:
    """Say whether the query database answers where it is on a PostgreSQL, and what its user may do."""
    if not (settings.query_database_url or "").startswith("postgres"):
        return
    try:
        may_write = asyncio.run(_may_write(settings))
    except (sa.exc.SQLAlchemyError, OSError, UnicodeError) as error:
        yield Finding("fail", QUERIES, f"It {reason(error)}.", CHECK)
        return
    if may_write:
        yield Finding("warn", QUERIES, "PostgreSQL answers, and lets its user write to tables.", READER)
    else:
        yield Finding("ok", QUERIES, "PostgreSQL answers, and lets its user only read.")


async def _may_write(settings: Settings) -> bool:
    async with open_query_database(settings) as database:
        return bool(await database.run(lambda connection: connection.scalar(_WRITABLE)))


REGISTERED_TOOLS = "registered tools"
MOST_NAMED = 3


def check_registered_tools(settings: Settings) -> Iterator[Finding]:
    """Read the registry, if there is one, and say why calls of its tools could not be sent; none is called."""
    url = parse_url(database_url(settings), TOOLS_DATABASE.setting)
    file = file_of(url)
    if file is not None and not file.exists():
        return
    if file is None and not asyncio.run(has_schema(url, TOOLS_DATABASE)):
        text = f"none; the first server makes their tables in the {TOOLS_DATABASE.name}."
        yield Finding("ok", REGISTERED_TOOLS, text)
        return
    tools = asyncio.run(_all(settings))
    problems: dict[tuple[str, str | None], list[str]] = {}
    for tool in tools:
        for problem in _problems(tool, settings):
            problems.setdefault(problem, []).append(tool.tool_id)
    yield Finding("ok", REGISTERED_TOOLS, f"{len(tools)} in the {TOOLS_DATABASE.name}.")
    for (text, fix), tool_ids in problems.items():
        yield Finding("warn", REGISTERED_TOOLS, f"{listed(tool_ids, MOST_NAMED)} cannot be called: {text}", fix)


async def _all(settings: Settings) -> Sequence[ToolConfig]:
    async with open_tool_registry(settings) as registry:
        return await registry.all()


def _problems(tool: ToolConfig, settings: Settings) -> Iterator[tuple[str, str | None]]:
    try:
        credentials_of(tool, settings.tool_env)
    except ConfigError as error:
        yield error.message, error.fix
    try:
        OutboundPolicy(settings.outbound_allow).check_written(tool.api.base_url)
    except OutboundRefused as error:
        yield str(error), None


def check_script_settings(settings: Settings) -> Iterator[Finding]:
    """Say whether the script settings that are named can be used; a server starts in any case, but jobs would fail."""
    if settings.config_path is not None:
        script_endpoint(settings, named_script_settings(settings))
        yield Finding("ok", "script settings", f"{settings.config_path}.")


def check_script_servers(settings: Settings) -> Iterator[Finding]:
    """Say whether the servers of script jobs that are named can be used."""
    if config := named_mcp_config(settings):
        enabled = ", ".join(server.name for server in config.servers if server.enabled)
        yield Finding("ok", "script servers", f"{settings.mcp_config_path} enables {enabled}.")


def check_servers(settings: Settings) -> Iterator[Finding]:
    """Read the mcp file that counts, start the servers, list their tools, stop them."""
    servers = ServersConfig(served_mcp_config(settings), settings)
    for warning in servers.mcp.warnings:
        yield Finding("warn", "mcp.jsonc", f"{warning}.")
    found = survey(servers)
    yield Finding("ok", "mcp.jsonc", f"{mcp_place(settings).in_words()}.")
    for server in found:
        if server.state == "ready":
            tools = f"{len(server.tools)} tools in {server.ready_ms} ms."
            yield Finding("ok", f"server {server.name}", tools)
        elif server.state != "disabled":
            text = f"{server.state}: {server.reason or 'no answer yet'}"
            yield Finding("fail", f"server {server.name}", text, servers.advice(server))
    if off := [server.name for server in found if server.state == "disabled"]:
        yield Finding("ok", "disabled servers", f"{', '.join(off)}.")


# In the order in which a server would need them.
CHECKS: dict[str, Callable[[Settings], Iterator[Finding]]] = {
    "model": check_model,
    TODO_DATABASE.name: check_todos,
    QUERIES: check_queries,
    "mcp.jsonc": check_servers,
    "script settings": check_script_settings,
    "script servers": check_script_servers,
    REGISTERED_TOOLS: check_registered_tools,
    FILE_ROOTS: check_files,
    "data folder": check_data_folder,
    "database": check_schema,
}
COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Check settings, langgraph.json, model, databases, MCP servers, script files, registered tools, data folder, port.

    Every line is ok, warn or fail, with what to do. The exit code is 1 when anything failed. Secrets are never shown.
    """
    console = stdout_console()
    configure_logging(Settings(log_level="CRITICAL"))
    levels = [_shown(console, finding) for finding in diagnose(config, data_dir)]
    raise typer.Exit(1 if "fail" in levels else 0)


def diagnose(config: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    """Make every check whose prerequisites are there, in the order in which a server would need them."""
    findings, served = check_langgraph_json(config)
    yield from findings
    findings, settings = check_settings(data_dir)
    yield from findings
    if settings is None:
        return
    if served is not None:
        yield from check_graphs(served)
    for subject, check in CHECKS.items():
        yield from guarded(subject, check(settings))
    yield check_address(settings, authenticated=served is not None and served.auth is not None)


def _shown(console: Console, finding: Finding) -> Level:
    console.print(styled(f"{finding.level:<4}", COLOURS[finding.level]), styled(f"{finding.subject}: {finding.text}"))
    if finding.fix:
        console.print(styled(f"     → {finding.fix}"))
    return finding.level
