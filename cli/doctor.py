"""Check this installation and suggest fixes: `toolweave doctor`. No check changes anything."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import httpx
import sqlalchemy as sa
import typer
from rich.console import Console

from toolweave.api.langgraph.app import prepare_imports
from toolweave.api.langgraph.auth.authentication import load_auth
from toolweave.api.langgraph.custom_app import load_custom_app
from toolweave.cli.api_client import did_you_mean
from toolweave.cli.configuration import ConfigOption, DataDirOption, find_langgraph_json
from toolweave.cli.graph import single_graph_registry
from toolweave.cli.http_server import listening_socket, socket_url
from toolweave.cli.servers.probe import ServersConfig, probe
from toolweave.cli.terminal import stdout_console, styled
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import find_mcp_config, served_mcp_config
from toolweave.config.script_job import env_mcp_config, env_script_settings
from toolweave.config.settings import Settings, load_settings, unknown_variables
from toolweave.errors import ConfigError, DataFolderLocked, OutboundRefused, ToolweaveError
from toolweave.extras import require_extra
from toolweave.nodes.chat_models import settings_for_script
from toolweave.nodes.http_tools.api_calls import resolve_credentials
from toolweave.nodes.local_model import find_local_model
from toolweave.nodes.model_endpoint import MODEL_ADVICE, ModelEndpoint, chosen_endpoint, model_variable
from toolweave.outbound import OutboundPolicy
from toolweave.runtime.persistence.data_folder import LOCK_FILE, data_folder_lock
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.schema import NEWEST_REVISION, SchemaRevision, is_current, schema_revision
from toolweave.runtime.priority import load_priority
from toolweave.servers.core.files.roots import Roots
from toolweave.servers.core.query.database import open_query_database
from toolweave.servers.databases.database import failure_reason, has_schema
from toolweave.servers.databases.engine import POOL_SIZE, parse_url, sqlite_file
from toolweave.servers.registry.repository import database_url, open_tool_registry
from toolweave.servers.registry.stored_tools import TOOLS_DATABASE, format_ids
from toolweave.servers.todo.database import TODO_DATABASE
from toolweave.tool_config import ToolConfig

if TYPE_CHECKING:
    from toolweave.runtime.persistence.postgres.inspection import DatabaseReport

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `toolweave doctor`: `text` is the result, `fix` what to do. Neither ever contains a secret."""

    level: Level
    subject: str
    text: str
    fix: str | None = None


def error_finding(subject: str, error: ToolweaveError) -> Finding:
    """Convert one of our errors to a finding."""
    if isinstance(error, ConfigError):
        text = f"{error.source}: {error.message}" if error.source else error.message
        return Finding("fail", subject, text, error.fix)
    return Finding("fail", subject, str(error))


def catch_errors(subject: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; one of our errors that ends them becomes the last finding, under this subject."""
    try:
        yield from findings
    except ToolweaveError as error:
        yield error_finding(subject, error)


ADDRESS_TIMEOUT_S = 2.0


def check_address(settings: Settings, *, authenticated: bool = False) -> Finding:
    """Check that the address is free; a LangGraph server that already listens there is only a warning."""
    try:
        with listening_socket(settings, authenticated=authenticated) as sock:
            return Finding("ok", "address", f"{socket_url(sock)} is free.")
    except ConfigError as error:
        url = f"http://{settings.host}:{settings.port}"
        if _is_server_running(url):
            return Finding("warn", "address", f"a server is already running at {url}.", error.fix)
        return error_finding("address", error)


def _is_server_running(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/ok", timeout=ADDRESS_TIMEOUT_S, trust_env=False).is_success)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def check_settings(data_dir: Path | None) -> tuple[list[Finding], Settings | None]:
    """Read the settings; warn about unknown variables with our prefix, which are probably misspelt."""
    findings = [
        Finding("warn", "settings", f"the environment variable {name} sets nothing.", "Correct its name, or unset it.")
        for name in unknown_variables()
    ]
    try:
        settings = load_settings(data_dir=data_dir)
    except ToolweaveError as error:
        return [*findings, error_finding("settings", error)], None
    return [*findings, Finding("ok", "settings", "every variable has a valid value.")], settings


def check_langgraph_json(config: Path | None) -> tuple[list[Finding], LangGraphJson | None]:
    """Read langgraph.json and set its variables, as a server would."""
    try:
        loaded = find_langgraph_json(config)
    except ToolweaveError as error:
        return [error_finding("langgraph.json", error)], None
    loaded.apply_env()
    warnings = [Finding("warn", "langgraph.json", f"{warning}.") for warning in loaded.warnings]
    where = str(loaded.path) if loaded.path.exists() else "there is none here: Toolweave's own graphs are served"
    return [*warnings, Finding("ok", "langgraph.json", f"{where}.")], loaded


def check_graphs(langgraph_json: LangGraphJson) -> Iterator[Finding]:
    """Import every graph, the custom application, the auth handlers and the priority function."""
    prepare_imports(langgraph_json)
    for name in langgraph_json.graphs:
        yield from catch_errors("graphs", _check_graph(langgraph_json, name))
    for subject, load in (("http.app", load_custom_app), ("auth", load_auth), ("priority", load_priority)):
        try:
            load(langgraph_json)
        except ToolweaveError as error:
            yield error_finding(subject, error)


def _check_graph(langgraph_json: LangGraphJson, name: str) -> Iterator[Finding]:
    single_graph_registry(langgraph_json, name)
    yield Finding("ok", "graphs", f"{name} is {langgraph_json.graphs[name].target}.")


DATA_FOLDER_FIX = "Name another folder with --data-dir or TOOLWEAVE_DATA_DIR."


def check_data_folder(settings: Settings) -> Iterator[Finding]:
    """Check whether a server could open the data folder now."""
    folder = settings.data_dir
    if not folder.exists():
        yield _check_creatable(folder)
    elif not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield Finding("fail", "data folder", f"{folder} is not a folder this user may write to.", DATA_FOLDER_FIX)
    else:
        yield _check_lock(folder)


def _check_creatable(folder: Path) -> Finding:
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("ok", "data folder", f"the first server will create {folder}.")
    return Finding("fail", "data folder", f"{folder} cannot be created: {parent} is not writable.", DATA_FOLDER_FIX)


def _check_lock(folder: Path) -> Finding:
    try:
        if (folder / LOCK_FILE).exists():
            with data_folder_lock(folder):
                pass
        return Finding("ok", "data folder", f"{folder} is writable and not in use.")
    except DataFolderLocked as error:
        return Finding("warn", "data folder", str(error))


DATABASE = "database"


def check_database(settings: Settings) -> Iterator[Finding]:
    """Check the database of threads and runs: PostgreSQL if it is configured, else app.db in the data folder."""
    yield from check_postgres(settings) if settings.database_url else check_schema(settings)


def check_schema(settings: Settings) -> Iterator[Finding]:
    """Check whether app.db can be read and has the current schema; yield nothing if there is no app.db."""
    path = settings.data_dir / "app.db"
    if not os.access(path, os.F_OK):
        return
    try:
        schema = _read_schema(path)
    except sa.exc.SQLAlchemyError as error:
        fix = "Restore a backup, or move the file away."
        yield Finding("fail", DATABASE, f"{path} cannot be read: it {failure_reason(error)}.", fix)
    else:
        yield Finding("ok", DATABASE, f"{path} has {_schema_age(str(path), schema)}.")


def _read_schema(path: Path) -> SchemaRevision | None:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    engine = sa.create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True, timeout=1.0), poolclass=sa.NullPool
    )
    with engine.connect() as connection:
        return schema_revision(connection)


def _schema_age(database: str, schema: SchemaRevision | None) -> str:
    """Describe a schema. Raises NewerSchema or PersistenceError if this version cannot use it."""
    if not is_current(database, schema):
        return "an older schema; the next server upgrades it" if schema else "no tables yet; the next server makes them"
    newer = schema is not None and schema.revision > NEWEST_REVISION
    return "a newer schema, which this version can use" if newer else "the current schema"


DIRECT_URL_FIX = (
    "Set TOOLWEAVE_DATABASE_DIRECT_URL to the address of PostgreSQL itself: notifications need a session of their own."
)
# Beside its pool, a process has one connection for notifications, and pools for todos and for registered tools.
OTHER_CONNECTIONS = 1 + 2 * POOL_SIZE


def check_postgres(settings: Settings) -> Iterator[Finding]:
    """Check the PostgreSQL database: reachable, schema, encoding, pgvector, direct URL, token key and connections."""
    require_extra("postgres")
    from toolweave.runtime.persistence.postgres.inspection import inspect_postgres  # noqa: PLC0415 - optional extra

    address = PostgresAddress(settings.database_url or "", settings.database_direct_url)
    report = asyncio.run(inspect_postgres(address))
    vector = "with" if report.has_pgvector else "without"
    yield Finding("ok", DATABASE, f"{report.label} answers: PostgreSQL {report.version}, {vector} pgvector.")
    if report.encoding != "UTF8":
        fix = "Create the database with ENCODING 'UTF8'."
        yield Finding("fail", DATABASE, f"it has the encoding {report.encoding}.", fix)
    yield from catch_errors(DATABASE, _check_postgres_schema(report))
    yield from _check_sessions(report, has_direct_url=address.direct_url is not None)
    yield _check_connections(report, settings.database_pool_size + OTHER_CONNECTIONS)
    if settings.token_key is None:
        text = "TOOLWEAVE_TOKEN_KEY is not set: only this data folder has the key of stored credentials."
        fix = "Set it to the same value on all machines that use this database."
        yield Finding("warn", DATABASE, text, fix)


def _check_postgres_schema(report: "DatabaseReport") -> Iterator[Finding]:
    yield Finding("ok", DATABASE, f"it has {_schema_age(report.label, report.schema)}.")


def _check_sessions(report: "DatabaseReport", *, has_direct_url: bool) -> Iterator[Finding]:
    if report.direct_problem is not None:
        text = f"TOOLWEAVE_DATABASE_DIRECT_URL {report.direct_problem.rstrip('.')}."
        yield Finding("fail", DATABASE, text, DIRECT_URL_FIX)
    elif report.is_pooled and not has_direct_url:
        text = "the URL leads to a connection pooler in transaction mode, such as PgBouncer."
        yield Finding("fail", DATABASE, text, DIRECT_URL_FIX)
    elif report.is_pooled:
        yield Finding("ok", DATABASE, "the URL leads to a connection pooler, the direct URL to PostgreSQL itself.")


def _check_connections(report: "DatabaseReport", most: int) -> Finding:
    count = max(report.live_processes, 1)
    text = (
        f"{report.connections_used} of {report.connections_allowed} connections are in use, and {report.live_processes}"
        f" processes of Toolweave are alive; each may open {most}."
    )
    # Behind a pooler, connections of processes are not those of the server.
    if report.is_pooled or count * most <= report.connections_allowed:
        return Finding("ok", DATABASE, text)
    fix = "Raise max_connections, lower TOOLWEAVE_DATABASE_POOL_SIZE, or use PgBouncer."
    return Finding("warn", DATABASE, text, fix)


FILE_ROOTS = "file roots"


def check_file_roots(settings: Settings) -> Iterator[Finding]:
    """Check that each folder exists and the ignore rules can be read; yield nothing if no folder is configured."""
    if settings.file_roots:
        roots = Roots(settings.file_roots, private_folder=settings.data_dir)
        problems = roots.problems()
        for problem in problems:
            yield Finding("warn", FILE_ROOTS, problem, "Create the folder, or correct TOOLWEAVE_FILE_ROOTS.")
        if not problems:
            yield Finding("ok", FILE_ROOTS, f"{', '.join(roots.names)}.")
        Roots((), settings.file_ignore, private_folder=settings.data_dir)


MODEL_TIMEOUT_S = 5.0
KEY_REJECTED_CODES = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


def check_model(settings: Settings) -> Iterator[Finding]:
    """Report which model is used and which variable selects it; request the endpoint's list of models."""
    endpoint = chosen_endpoint(settings)
    if endpoint is not None:
        yield Finding(
            "ok", "model", f"{endpoint.model} at {_safe_url(endpoint)}, because {model_variable(settings)} is set."
        )
        yield _check_endpoint(endpoint)
    elif settings.model is not None:
        yield Finding("ok", "model", "the offline demo model, because TOOLWEAVE_MODEL is set to it.")
    elif found := asyncio.run(find_local_model()):
        text = f"no endpoint is configured: `dev`, `chat` and `run` use {found.describe()}, `serve` the offline model."
        yield Finding("warn", "model", text, MODEL_ADVICE)
    else:
        text = "the offline demo model: no endpoint is configured, and no model with tools was found on this machine."
        yield Finding("warn", "model", text, MODEL_ADVICE)


def _safe_url(endpoint: ModelEndpoint) -> str:
    """Return the endpoint's URL without user name, password and query."""
    parts = urlsplit(endpoint.base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _check_endpoint(endpoint: ModelEndpoint) -> Finding:
    url = _safe_url(endpoint)
    key = {"authorization": f"Bearer {endpoint.api_key.get_secret_value()}"}
    options: dict[str, Any] = {"timeout": MODEL_TIMEOUT_S, "trust_env": endpoint.uses_proxy}
    try:
        response = httpx.get(f"{endpoint.base_url.rstrip('/')}/models", headers=key, **options)
    except (httpx.HTTPError, ValueError, OSError, ImportError) as error:
        # The error's text can contain the key (a header that is not ASCII).
        fix = "Check the address, the network, the variables of proxies and certificates, and whether it is running."
        return Finding("fail", "model", f"{url} cannot be reached ({type(error).__name__}).", fix)
    if response.status_code in KEY_REJECTED_CODES:
        fix = "Check the key in the variable named above."
        return Finding("fail", "model", f"{url} rejects the key ({response.status_code}).", fix)
    # Gemini lists models/NAME, Ollama NAME:latest. Some endpoints accept further names.
    names, model = _model_names(response), endpoint.model
    if names and not {model, f"models/{model}", f"{model}:latest"} & {*names}:
        fix = f"Set TOOLWEAVE_MODEL to one that it lists. {did_you_mean(model, names)}"
        return Finding("warn", "model", f"{url} does not list the model {model}.", fix)
    return Finding("ok", "model", f"{url} answers.")


def _model_names(response: httpx.Response) -> list[str]:
    """Return the models that an endpoint lists; none if its response has another form."""
    try:
        return sorted({str(model["id"]) for model in response.json()["data"]})
    except (ValueError, KeyError, TypeError):
        return []


QUERY_DATABASE = "query database"
QUERY_DATABASE_FIX = "Check its server, TOOLWEAVE_QUERY_DATABASE_URL and TOOLWEAVE_QUERY_ROLE."
READ_ONLY_FIX = "Use a read-only user (docs/postgresql.md), or set TOOLWEAVE_QUERY_ROLE to a read-only role."
_CAN_WRITE_SQL = sa.text("""
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
        AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    )
""")


def check_todo_database(settings: Settings) -> Iterator[Finding]:
    """Check the todo database if it is on PostgreSQL."""
    url = settings.todo_database_url or ""
    if not url.startswith("postgres"):
        return
    host = parse_url(url, TODO_DATABASE.setting).host or "this machine"
    has_tables = asyncio.run(has_schema(url, TODO_DATABASE))
    text = f"PostgreSQL on {host}, {'its tables exist' if has_tables else 'without tables yet'}."
    yield Finding("ok", TODO_DATABASE.name, text)


def check_query_database(settings: Settings) -> Iterator[Finding]:
    """Check whether a query database on PostgreSQL answers, and whether its user can write."""
    if not (settings.query_database_url or "").startswith("postgres"):
        return
    try:
        can_write = asyncio.run(_can_write(settings))
    except (sa.exc.SQLAlchemyError, OSError, UnicodeError) as error:
        yield Finding("fail", QUERY_DATABASE, f"It {failure_reason(error)}.", QUERY_DATABASE_FIX)
        return
    if can_write:
        yield Finding("warn", QUERY_DATABASE, "PostgreSQL answers; its user can write to tables.", READ_ONLY_FIX)
    else:
        yield Finding("ok", QUERY_DATABASE, "PostgreSQL answers; its user can only read.")


async def _can_write(settings: Settings) -> bool:
    async with open_query_database(settings) as database:
        return bool(await database.run(lambda connection: connection.scalar(_CAN_WRITE_SQL)))


REGISTERED_TOOLS = "registered tools"
MAX_TOOLS_NAMED = 3


def check_registered_tools(settings: Settings) -> Iterator[Finding]:
    """Report registered tools whose calls could not be sent, and why; no tool is called."""
    url = parse_url(database_url(settings), TOOLS_DATABASE.setting)
    file = sqlite_file(url)
    if file is not None and not file.exists():
        return
    if file is None and not asyncio.run(has_schema(url, TOOLS_DATABASE)):
        text = f"none; the first server creates their tables in the {TOOLS_DATABASE.name}."
        yield Finding("ok", REGISTERED_TOOLS, text)
        return
    tools = asyncio.run(_load_tools(settings))
    problems: dict[tuple[str, str | None], list[str]] = {}
    for tool in tools:
        for problem in _tool_problems(tool, settings):
            problems.setdefault(problem, []).append(tool.tool_id)
    yield Finding("ok", REGISTERED_TOOLS, f"{len(tools)} in the {TOOLS_DATABASE.name}.")
    for (text, fix), ids in problems.items():
        yield Finding("warn", REGISTERED_TOOLS, f"{format_ids(ids, MAX_TOOLS_NAMED)} cannot be called: {text}", fix)


async def _load_tools(settings: Settings) -> Sequence[ToolConfig]:
    async with open_tool_registry(settings) as registry:
        return await registry.list_all()


def _tool_problems(tool: ToolConfig, settings: Settings) -> Iterator[tuple[str, str | None]]:
    try:
        resolve_credentials(tool, settings.tool_env)
    except ConfigError as error:
        yield error.message, error.fix
    try:
        OutboundPolicy(settings.outbound_allow).check_without_dns(tool.api.base_url)
    except OutboundRefused as error:
        yield str(error), None


def check_script_settings(settings: Settings) -> Iterator[Finding]:
    """Check the configured script settings; a server starts with invalid ones, too, but script jobs fail."""
    if settings.config_path is not None:
        settings_for_script(settings, env_script_settings(settings))
        yield Finding("ok", "script settings", f"{settings.config_path}.")


def check_script_servers(settings: Settings) -> Iterator[Finding]:
    """Check the configured MCP servers of script jobs."""
    if config := env_mcp_config(settings):
        enabled = ", ".join(server.name for server in config.servers if server.enabled)
        yield Finding("ok", "script servers", f"{settings.mcp_config_path} enables {enabled}.")


def check_servers(settings: Settings) -> Iterator[Finding]:
    """Read the effective mcp file, start its servers, list their tools, stop them."""
    servers = ServersConfig(served_mcp_config(settings), settings)
    for warning in servers.mcp.warnings:
        yield Finding("warn", "mcp.jsonc", f"{warning}.")
    found = probe(servers)
    yield Finding("ok", "mcp.jsonc", f"{find_mcp_config(settings).describe()}.")
    for server in found:
        if server.state == "ready":
            tools = f"{len(server.tools)} tools in {server.ready_ms} ms."
            yield Finding("ok", f"server {server.name}", tools)
        elif server.state != "disabled":
            text = f"{server.state}: {server.reason or 'no answer yet'}"
            yield Finding("fail", f"server {server.name}", text, servers.advice(server))
    if disabled := [server.name for server in found if server.state == "disabled"]:
        yield Finding("ok", "disabled servers", f"{', '.join(disabled)}.")


# In the order in which a server would need them.
CHECKS: dict[str, Callable[[Settings], Iterator[Finding]]] = {
    "model": check_model,
    TODO_DATABASE.name: check_todo_database,
    QUERY_DATABASE: check_query_database,
    "mcp.jsonc": check_servers,
    "script settings": check_script_settings,
    "script servers": check_script_servers,
    REGISTERED_TOOLS: check_registered_tools,
    FILE_ROOTS: check_file_roots,
    "data folder": check_data_folder,
    DATABASE: check_database,
}
LEVEL_COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Check settings, langgraph.json, model, databases, MCP servers, script files, registered tools, data folder, port.

    Each line is ok, warn or fail; a fix may follow. The exit code is 1 if a check failed. Secrets are never shown.
    """
    configure_logging(Settings(log_level="CRITICAL"))
    show_findings(diagnose(config, data_dir))


def diagnose(config: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    """Run every check whose prerequisites are met, in the order in which a server would need them."""
    findings, langgraph_json = check_langgraph_json(config)
    yield from findings
    findings, settings = check_settings(data_dir)
    yield from findings
    if settings is None:
        return
    if langgraph_json is not None:
        yield from check_graphs(langgraph_json)
    for subject, check in CHECKS.items():
        yield from catch_errors(subject, check(settings))
    yield check_address(settings, authenticated=langgraph_json is not None and langgraph_json.auth is not None)


def show_findings(findings: Iterable[Finding]) -> None:
    """Print each finding as soon as it is there; exit with code 1 if any of them is a failure, else 0."""
    console = stdout_console()
    levels = [_show(console, finding) for finding in findings]
    raise typer.Exit(1 if "fail" in levels else 0)


def _show(console: Console, finding: Finding) -> Level:
    console.print(
        styled(f"{finding.level:<4}", LEVEL_COLOURS[finding.level]), styled(f"{finding.subject}: {finding.text}")
    )
    if finding.fix:
        console.print(styled(f"     → {finding.fix}"))
    return finding.level
