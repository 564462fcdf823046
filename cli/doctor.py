"""Check this installation and say what to do: `toolweave doctor`.

Settings, langgraph.json, graphs, model, databases, MCP servers, script files, registered tools, file roots, data folder
and port; no check changes anything.
"""

import asyncio
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import httpx
import sqlalchemy as sa
import typer
from alembic.config import Config
from alembic.script import ScriptDirectory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from rich.console import Console
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.api.langgraph.app import make_importable
from toolweave.api.langgraph.auth.authentication import load_auth
from toolweave.api.langgraph.custom_app import load_custom_app
from toolweave.cli.configuration import ConfigOption, find_langgraph_json
from toolweave.cli.servers import Needs, Surveyed, advice, needs_of, survey, trial_settings
from toolweave.cli.serving import listening, url_of
from toolweave.cli.terminal import stdout_console, styled
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import mcp_place, mcp_variables, served_mcp_config
from toolweave.config.script_job import named_mcp_config, named_script_settings
from toolweave.config.settings import Settings, load_settings, unknown_variables
from toolweave.errors import ConfigError, DataFolderLocked, OutboundRefused, PersistenceError, ToolweaveError
from toolweave.nodes.chat_models import script_endpoint
from toolweave.nodes.http_tools.api_calls import credentials_of
from toolweave.nodes.model_endpoint import Endpoint, chosen_endpoint
from toolweave.outbound import OutboundPolicy
from toolweave.runtime.graphs import GraphRegistry, load_graph
from toolweave.runtime.persistence.opening import LOCK_FILE, data_folder_lock
from toolweave.runtime.persistence.schema import MIGRATIONS
from toolweave.servers.connections.oauth.place import token_place
from toolweave.servers.core.files.opening import Roots
from toolweave.servers.core.query.databases import open_query_database
from toolweave.servers.databases.engine import file_of, parse_url
from toolweave.servers.databases.opening import has_schema
from toolweave.servers.databases.postgresql import reason
from toolweave.servers.registry.repository import database_url, open_tool_registry
from toolweave.servers.registry.stored_tools import TOOLS_DATABASE, listed
from toolweave.servers.todo.schema import TODO_DATABASE
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
    for name, entry in served.graphs.items():
        try:
            loaded = {name: load_graph(served, name)}
            GraphRegistry(loaded, {name: None}, checkpointer=InMemorySaver(), store=InMemoryStore())
        except ToolweaveError as error:
            yield failure("graphs", error)
        else:
            yield Finding("ok", "graphs", f"{name} is {entry.target}.")
    try:
        load_custom_app(served)
    except ToolweaveError as error:
        yield failure("http.app", error)
    try:
        load_auth(served)
    except ToolweaveError as error:
        yield failure("auth", error)


ANOTHER = "Name another folder with --data-dir or TOOLWEAVE_DATA_DIR."


def check_data_folder(folder: Path) -> Iterator[Finding]:
    """Say whether a server could open this folder now."""
    if not folder.exists():
        yield _creatable(folder)
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield Finding("fail", "data folder", f"{folder} is not a folder this user may write to.", ANOTHER)
        return
    yield _lock(folder)
    database = folder / "app.db"
    if database.exists():
        yield _schema(database)


def _creatable(folder: Path) -> Finding:
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("ok", "data folder", f"{folder} will be made by the first server.")
    return Finding("fail", "data folder", f"{folder} cannot be made: {parent} is not writable.", ANOTHER)


def _lock(folder: Path) -> Finding:
    if not (folder / LOCK_FILE).exists():
        return Finding("ok", "data folder", f"{folder} is writable and not in use.")
    try:
        with data_folder_lock(folder):
            return Finding("ok", "data folder", f"{folder} is writable and not in use.")
    except DataFolderLocked as error:
        return Finding("warn", "data folder", str(error))
    except PersistenceError as error:
        return failure("data folder", error)


def _schema(path: Path) -> Finding:
    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(settings)
    try:
        seen = _revision(path)
    except sqlite3.Error as error:
        fix = "Restore a backup, or move the file away."
        return Finding("fail", "database", f"{path} cannot be read: {error}.", fix)
    if seen == scripts.get_current_head():
        return Finding("ok", "database", f"{path} has the current schema.")
    if seen in {script.revision for script in scripts.walk_revisions()}:
        return Finding("ok", "database", f"{path} has an older schema; the next server upgrades it.")
    fix = f"Upgrade Toolweave. {ANOTHER}"
    return Finding("fail", "database", f"{path} was written by a newer Toolweave (schema {seen!r}).", fix)


def _revision(path: Path) -> str | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else None


FILE_ROOTS = "file roots"


def check_files(settings: Settings) -> Iterator[Finding]:
    """Say whether each folder is there and the ignore rules can be read; nothing where no folder is named."""
    if not settings.file_roots:
        return
    roots = Roots(settings.file_roots, private_folder=settings.data_dir)
    problems = roots.problems()
    for problem in problems:
        yield Finding("warn", FILE_ROOTS, problem, "Make the folder, or correct TOOLWEAVE_FILE_ROOTS.")
    if not problems:
        yield Finding("ok", FILE_ROOTS, f"{', '.join(roots.names)}.")
    try:
        Roots((), settings.file_ignore, private_folder=settings.data_dir)
    except ConfigError as error:
        yield failure(FILE_ROOTS, error)


MODEL_TIMEOUT_S = 5.0
REJECTED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


def check_model(settings: Settings) -> Iterator[Finding]:
    """Say which model is chosen and by which variable; ask the endpoint for its list of models."""
    try:
        endpoint = chosen_endpoint(settings)
    except ToolweaveError as error:
        yield failure("model", error)
        return
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


def _place(endpoint: Endpoint) -> str:
    """Name the endpoint without a user name, password or query that its URL may hold."""
    parts = urlsplit(endpoint.base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _reached(endpoint: Endpoint) -> Finding:
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


def check_postgresql(settings: Settings) -> Iterator[Finding]:
    """Say how it stands with the todo and the query database where they are on a PostgreSQL; nothing is changed."""
    if _is_postgresql(settings.todo_database_url):
        yield _todos(settings.todo_database_url or "")
    if _is_postgresql(settings.query_database_url):
        yield asyncio.run(_queries(settings))


def _is_postgresql(url: str | None) -> bool:
    try:
        return url is not None and sa.make_url(url).get_backend_name() in ("postgresql", "postgres")
    except sa.exc.ArgumentError:
        return False


def _todos(url: str) -> Finding:
    subject = TODO_DATABASE.name
    place = parse_url(url, TODO_DATABASE).host or "this machine"
    try:
        there = asyncio.run(has_schema(url, TODO_DATABASE))
    except ToolweaveError as error:
        return failure(subject, error)
    return Finding(
        "ok", subject, f"PostgreSQL on {place}, {'its tables are there' if there else 'without tables yet'}."
    )


async def _queries(settings: Settings) -> Finding:
    try:
        async with open_query_database(settings) as database:
            may_write = await database.run(_may_write)
    except ToolweaveError as error:
        return failure(QUERIES, error)
    except (sa.exc.SQLAlchemyError, OSError, UnicodeError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        return Finding("fail", QUERIES, f"It {reason(cause)}.", CHECK)
    if may_write:
        return Finding("warn", QUERIES, "PostgreSQL answers, and lets its user write to tables.", READER)
    return Finding("ok", QUERIES, "PostgreSQL answers, and lets its user only read.")


async def _may_write(connection: AsyncConnection) -> bool:
    return bool(await connection.scalar(_WRITABLE))


REGISTERED_TOOLS = "registered tools"
MOST_NAMED = 3


def check_registered_tools(settings: Settings) -> Iterator[Finding]:
    """Read the registry, if there is one, and say why calls of its tools could not be sent; none is called."""
    try:
        url = parse_url(database_url(settings), TOOLS_DATABASE)
        file = file_of(url)
        if file is not None and not file.exists():
            return
        if file is None and not asyncio.run(has_schema(url, TOOLS_DATABASE)):
            yield Finding(
                "ok", REGISTERED_TOOLS, f"none; the first server makes their tables in the {TOOLS_DATABASE.name}."
            )
            return
        tools = asyncio.run(_all(settings))
    except ToolweaveError as error:
        yield failure(REGISTERED_TOOLS, error)
        return
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


def check_script_files(settings: Settings) -> Iterator[Finding]:
    """Say whether each file that is named can be used; a server starts in any case, but the jobs would fail."""
    if settings.config_path is not None:
        try:
            script_endpoint(settings, named_script_settings(settings))
        except ConfigError as error:
            yield failure("script settings", error)
        else:
            yield Finding("ok", "script settings", f"{settings.config_path}.")
    try:
        config = named_mcp_config(settings)
    except ConfigError as error:
        yield failure("script servers", error)
    else:
        if config is not None:
            enabled = ", ".join(server.name for server in config.servers if server.enabled)
            yield Finding("ok", "script servers", f"{settings.mcp_config_path} enables {enabled}.")


def check_servers(settings: Settings) -> list[Finding]:
    """Read the mcp file that counts, start the servers, list their tools, stop them."""
    with trial_settings(settings) as trial:
        try:
            config = served_mcp_config(trial)
        except ToolweaveError as error:
            return [failure("mcp.jsonc", error)]
        warnings = [Finding("warn", "mcp.jsonc", f"{warning}.") for warning in config.warnings]
        found = asyncio.run(survey(config.servers, token_place(settings)))
    needs = {
        each.name: needs_of(each.name, each.raw, mcp_variables(settings), settings.data_dir) for each in config.servers
    }
    read = Finding("ok", "mcp.jsonc", f"{mcp_place(settings).in_words()}.")
    wanted = [_server_finding(server, needs[server.name]) for server in found if server.state != "disabled"]
    off = [server.name for server in found if server.state == "disabled"]
    return [*warnings, read, *wanted, *([Finding("ok", "disabled servers", f"{', '.join(off)}.")] if off else [])]


def _server_finding(server: Surveyed, needs: Needs) -> Finding:
    subject = f"server {server.name}"
    if server.state == "ready":
        return Finding("ok", subject, f"{len(server.tools)} tools in {server.ready_ms} ms.")
    reason = server.reason or "no answer yet"
    return Finding("fail", subject, f"{server.state}: {reason}", advice(server, needs))


COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    config: ConfigOption = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Folder of the databases.", show_default=".toolweave"),
    ] = None,
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
    yield from check_model(settings)
    yield from check_postgresql(settings)
    yield from check_servers(settings)
    yield from check_script_files(settings)
    yield from check_registered_tools(settings)
    yield from check_files(settings)
    yield from check_data_folder(settings.data_dir)
    yield check_address(settings, authenticated=served is not None and served.auth is not None)


def _shown(console: Console, finding: Finding) -> Level:
    console.print(styled(f"{finding.level:<4}", COLOURS[finding.level]), styled(f"{finding.subject}: {finding.text}"))
    if finding.fix:
        console.print(styled(f"     → {finding.fix}"))
    return finding.level
