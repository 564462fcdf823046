"""Create, check and fill the database: `toolweave db upgrade`, `check` and `copy` (S-06)."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import sqlalchemy as sa
import typer

from toolweave.cli.configuration import ConfigOption, Configuration, DataDirOption, read_configuration
from toolweave.cli.doctor import CHECKS, catch_errors, show_findings
from toolweave.cli.terminal import stdout_console, styled
from toolweave.config.logs import configure_logging
from toolweave.config.settings import Settings
from toolweave.encryption import data_folder_cipher
from toolweave.errors import ConfigError
from toolweave.extras import require_extra
from toolweave.runtime.persistence.data_folder import open_persistence
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.store import StoreIndex, build_store_options
from toolweave.servers.databases.database import has_schema
from toolweave.servers.registry.repository import open_tool_registry
from toolweave.servers.registry.stored_tools import REVISIONS, TOOLS, TOOLS_DATABASE
from toolweave.servers.todo.database import IDEMPOTENT_RESULTS, TODO_DATABASE, TODOS, database_url, open_todo_database

if TYPE_CHECKING:
    from toolweave.runtime.persistence.postgres.database import PostgresDatabase

CHECKED = (TODO_DATABASE.name, "registered tools", "data folder", "database")
CONNECTIONS = 2


def upgrade(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Create or upgrade all tables of the configured database.

    That is the PostgreSQL database of TOOLWEAVE_DATABASE_URL, or else the SQLite files in the data folder, which no
    server may be using then. Servers do the same when they start.
    """
    configuration = _read(config, data_dir)
    asyncio.run(_upgrade(configuration))
    stdout_console().print(styled(f"{_name_of(configuration.settings)} has the current schema."))


def check(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Check the configured database: whether it can be reached, its schema, its encoding, its connections.

    Nothing is changed. The exit code is 1 if a check failed. Passwords are never shown.
    """
    settings = _read(config, data_dir).settings
    show_findings(finding for name in CHECKED for finding in catch_errors(name, CHECKS[name](settings)))


def copy(
    source: Annotated[Path, typer.Option("--from", metavar="DIR", help="The data folder to copy.", show_default=False)],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Copy a data folder into the PostgreSQL database of TOOLWEAVE_DATABASE_URL, which must be empty.

    No server may be using either. The folder's databases are upgraded first, and stay as they are otherwise. Runs that
    were running wait, and start with the next server. The copy is made completely or not at all.
    """
    configuration = _read(config, data_dir)
    if configuration.settings.database_url is None:
        raise ConfigError("TOOLWEAVE_DATABASE_URL is not set.", fix="Set it to the database to copy to.")
    if not (source / "app.db").exists():
        raise ConfigError(f"{source} is not a data folder: it has no app.db.", source="--from")
    console = stdout_console()
    for table, rows in asyncio.run(_copy(configuration, source)).items():
        console.print(styled(f"{rows:>10}  {table}"))


def _read(config: Path | None, data_dir: Path | None) -> Configuration:
    configuration = read_configuration(config, data_dir=data_dir)
    configure_logging(configuration.settings.model_copy(update={"log_level": "ERROR"}))
    return configuration


def _name_of(settings: Settings) -> str:
    if settings.database_url is None:
        return str(settings.data_dir)
    return f"The database {PostgresAddress(settings.database_url).label}"


async def _upgrade(configuration: Configuration) -> None:
    settings = configuration.settings
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            await stack.enter_async_context(open_persistence(settings.data_dir, token_key=_token_key(settings)))
        else:
            await stack.enter_async_context(_open_prepared(configuration))
        await stack.enter_async_context(open_todo_database(database_url(settings)))
        await stack.enter_async_context(open_tool_registry(settings))


async def _copy(configuration: Configuration, source: Path) -> Mapping[str, int]:
    settings, key = configuration.settings, _token_key(configuration.settings)
    async with open_persistence(source, token_key=key):
        await _upgrade(configuration)
        async with _open_prepared(configuration) as database:
            from toolweave.runtime.persistence.postgres.copying import FolderCopy  # noqa: PLC0415 - optional extra

            index = _store_index(configuration)
            folder = FolderCopy(
                source,
                read=data_folder_cipher(source, key),
                write=data_folder_cipher(settings.data_dir, key),
                dims=index.dims if index else None,
                others=await _other_tables(settings, source),
            )
            return await folder.run(database)


@asynccontextmanager
async def _open_prepared(configuration: Configuration) -> AsyncIterator["PostgresDatabase"]:
    """Open the PostgreSQL database with a current schema."""
    require_extra("postgres")
    from toolweave.runtime.persistence.postgres.database import open_postgres  # noqa: PLC0415 - optional extra
    from toolweave.runtime.persistence.postgres.opening import prepare_database  # noqa: PLC0415 - optional extra

    settings = configuration.settings
    address = PostgresAddress(settings.database_url or "", settings.database_direct_url)
    async with open_postgres(address, size=CONNECTIONS) as database:
        await prepare_database(database, _store_index(configuration))
        yield database


def _store_index(configuration: Configuration) -> StoreIndex | None:
    langgraph_json = configuration.langgraph_json
    return build_store_options(langgraph_json.store, langgraph_json.path.parent).index


def _token_key(settings: Settings) -> str | None:
    return settings.token_key.get_secret_value() if settings.token_key else None


async def _other_tables(settings: Settings, source: Path) -> dict[str, Sequence[sa.Table]]:
    """Return the tables of todos and registered tools by file, if the folder has them and the database stores them."""
    files = (
        ("todo.db", TODO_DATABASE, settings.todo_database_url, (TODOS, IDEMPOTENT_RESULTS)),
        ("tools.db", TOOLS_DATABASE, settings.tools_database_url, (TOOLS, REVISIONS)),
    )
    return {
        file: tables
        for file, kind, url, tables in files
        if url == settings.database_url
        and (source / file).exists()
        and await has_schema(f"sqlite:///{(source / file).absolute()}", kind)
    }
