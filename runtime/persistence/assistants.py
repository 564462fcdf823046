"""Store assistants, the configurations of graphs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, TypeVar, Unpack
from uuid import UUID, uuid5

from sqlalchemy import Connection, Select, Table, delete, func, insert, select, update

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.codec import to_micros, utc_now
from toolweave.runtime.models import Assistant, AssistantPatch, JsonObject, Page
from toolweave.runtime.persistence.database import RuntimeDatabase, lock
from toolweave.runtime.persistence.schema import assistant_versions, assistants, crons, to_record, to_row
from toolweave.runtime.persistence.search import MAX_OFFSET, page_query, storable_text, where_contains, where_visible

T = TypeVar("T")
# The official server derives the ids of its system assistants from this UUID, and clients store them.
SYSTEM_ID_NAMESPACE = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
# The largest version number that a column of every database holds.
MAX_VERSION = 2**31 - 1


def system_assistant_id(graph_id: str) -> str:
    """Return the id of a graph's system assistant."""
    return str(uuid5(SYSTEM_ID_NAMESPACE, storable_text(graph_id)))


class AssistantFilter(TypedDict, total=False):
    """The conditions of a search for assistants."""

    metadata: JsonObject | None
    graph_id: str | None
    name: str | None


class AssistantRepository:
    """The assistants of all graphs."""

    def __init__(self, database: RuntimeDatabase, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def sync_system(self, graphs: Mapping[str, str | None], names: Mapping[str, str] | None = None) -> None:
        """Create one system assistant per graph (id to description) and delete those of removed graphs.

        An assistant has the name of its graph in `names`, or else the graph's id.
        """
        now = self._clock()
        await self._write(lambda connection: _sync_system(connection, graphs, names or {}, now))

    async def get(self, assistant_id: str) -> Assistant:
        """Return an assistant.

        Raises:
            NotFound: there is none with this id.
        """
        return await self._database.read(lambda connection: _get_assistant(connection, assistant_id, "Not Found"))

    async def create(self, assistant: Assistant, if_exists: Literal["raise", "do_nothing"] = "raise") -> Assistant:
        """Create an assistant with its first version, or return the one that exists if `if_exists` is do_nothing.

        Raises:
            Conflict: one with this id exists and `if_exists` is raise.
        """

        def work(connection: Connection) -> Assistant:
            found = _find_assistant(connection, assistant.assistant_id)
            if found is None:
                _insert_assistant(connection, assistant)
                return _get_assistant(connection, assistant.assistant_id)
            if if_exists == "raise":
                raise Conflict(f"Assistant {assistant.assistant_id} already exists")
            return found

        return await self._write(work)

    async def patch(self, assistant_id: str, patch: AssistantPatch) -> Assistant:
        """Change an assistant; each change, also an empty one, creates a version after the newest one.

        Raises:
            NotFound: there is none with this id.
        """
        now = self._clock()
        newest = select(func.max(assistant_versions.c.version)).where(assistant_versions.c.assistant_id == assistant_id)

        def work(connection: Connection) -> Assistant:
            current = _get_assistant(connection, assistant_id)
            version = int(connection.execute(newest).scalar_one()) + 1
            changed = replace(patch.apply_to(current), version=version, updated_at=now)
            created = _assistant_row(assistant_versions, changed, created_at=to_micros(now))
            connection.execute(insert(assistant_versions), created)
            _update_assistant(connection, changed)
            return _get_assistant(connection, assistant_id)

        return await self._write(work)

    async def set_latest(self, assistant_id: str, version: int | None) -> Assistant:
        """Activate a version; the context stays unchanged, as in the official server.

        Raises:
            NotFound: there is no such assistant or version.
        """
        now = self._clock()
        known = version is not None and 0 < version <= MAX_VERSION
        query = select(assistant_versions).where(
            assistant_versions.c.assistant_id == assistant_id, assistant_versions.c.version == (version if known else 0)
        )

        def work(connection: Connection) -> Assistant:
            current = _get_assistant(connection, assistant_id)
            row = connection.execute(query).one_or_none()
            if row is None:
                raise NotFound(f"Version {version} not found for assistant {assistant_id}")
            chosen = to_record(Assistant, row, context=current.context, created_at=current.created_at, updated_at=now)
            _update_assistant(connection, chosen)
            return chosen

        return await self._write(work)

    async def versions(
        self, assistant_id: str, *, metadata: JsonObject | None = None, limit: int = 10, offset: int = 0
    ) -> list[Assistant]:
        """Return the versions that contain the metadata, newest first.

        Raises:
            NotFound: there is no assistant with this id.
        """
        query = where_contains(
            select(assistant_versions).where(assistant_versions.c.assistant_id == assistant_id),
            assistant_versions.c.metadata,
            metadata,
        )
        query = query.order_by(assistant_versions.c.version.desc()).limit(limit).offset(min(offset, MAX_OFFSET))

        def work(connection: Connection) -> list[Assistant]:
            _get_assistant(connection, assistant_id)
            return [to_record(Assistant, row, updated_at=None) for row in connection.execute(query)]

        return await self._database.read(work)

    async def delete(self, assistant_id: str) -> None:
        """Delete an assistant with its versions and crons; its runs and threads stay.

        Raises:
            NotFound: there is none with this id.
        """

        def work(connection: Connection) -> None:
            if connection.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id)).rowcount == 0:
                raise NotFound(f"Assistant with ID {assistant_id} not found")

        await self._write(work)

    async def resolve(self, assistant: str) -> Assistant:
        """Return the assistant with this id, or the system assistant of this graph id.

        Raises:
            NotFound: there is neither.
        """
        return await self.get(_to_assistant_id(assistant))

    async def search(self, page: Page = Page(), **filters: Unpack[AssistantFilter]) -> list[Assistant]:
        """Return the assistants that contain the metadata, belong to the graph and contain `name` in their name."""
        keys = _apply_filter(select(assistants.c.assistant_id), filters)
        query = page_query(keys, assistants, page, page.sort_by or "created_at")
        return await self._database.read(
            lambda connection: [to_record(Assistant, row) for row in connection.execute(query)]
        )

    async def _write(self, work: Callable[[Connection], T]) -> T:
        """Run work that no other change of an assistant meets, in any process."""

        def locked_work(connection: Connection) -> T:
            lock(connection, "assistants")
            return work(connection)

        return await self._database.write(locked_work)

    async def count(self, **filters: Unpack[AssistantFilter]) -> int:
        """Return the number of assistants that `search` would find."""
        query = _apply_filter(select(func.count()).select_from(assistants), filters)
        return await self._database.read(lambda connection: int(connection.execute(query).scalar_one()))


def _to_assistant_id(assistant: str) -> str:
    try:
        return str(UUID(assistant))
    except ValueError:
        return system_assistant_id(assistant)


def _apply_filter(query: Select[Any], filters: AssistantFilter) -> Select[Any]:
    if (graph_id := filters.get("graph_id")) is not None:
        query = query.where(assistants.c.graph_id == storable_text(graph_id))
    if (name := filters.get("name")) is not None:
        # Not LIKE, because SQLite rejects long patterns.
        shown, part = func.lower(assistants.c.name), func.lower(storable_text(name))
        query = query.where(func.replace(shown, part, "") != shown) if name else query
    query = where_visible(query, "assistants", assistants.c.metadata)
    return where_contains(query, assistants.c.metadata, filters.get("metadata"))


def _find_assistant(connection: Connection, assistant_id: str) -> Assistant | None:
    row = connection.execute(select(assistants).where(assistants.c.assistant_id == assistant_id)).one_or_none()
    return None if row is None else to_record(Assistant, row)


def _get_assistant(connection: Connection, assistant_id: str, message: str | None = None) -> Assistant:
    found = _find_assistant(connection, assistant_id)
    if found is None:
        raise NotFound(message or f"Assistant {assistant_id} not found")
    return found


def _sync_system(
    connection: Connection, graphs: Mapping[str, str | None], names: Mapping[str, str], now: datetime
) -> None:
    """Create one system assistant per graph and delete those of removed graphs."""
    edited = select(assistant_versions.c.assistant_id).where(assistant_versions.c.version > 1)
    in_use = set(connection.execute(edited).scalars()) | set(connection.execute(select(crons.c.assistant_id)).scalars())
    known = {row.assistant_id: row for row in connection.execute(select(assistants))}
    for index, (graph_id, description) in enumerate(graphs.items()):
        # Distinct times keep the order of the graphs: searches sort by time.
        new = _build_system(graph_id, names.get(graph_id, graph_id), description, now + timedelta(microseconds=index))
        row = known.get(new.assistant_id)
        if row is None:
            _insert_assistant(connection, new)
        elif (row.name, row.description) != (new.name, description) and new.assistant_id not in in_use:
            _update_description(connection, new, now)
    for assistant_id, row in known.items():
        # Assistants that users edited or that crons use stay; their runs report the missing graph.
        is_orphan = row.graph_id not in graphs and assistant_id not in in_use
        if is_orphan and assistant_id == system_assistant_id(row.graph_id):
            connection.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id))


def _insert_assistant(connection: Connection, assistant: Assistant) -> None:
    """Insert an assistant and its first version."""
    connection.execute(insert(assistants), _assistant_row(assistants, assistant))
    connection.execute(insert(assistant_versions), _assistant_row(assistant_versions, assistant))


def _build_system(graph_id: str, name: str, description: str | None, created_at: datetime) -> Assistant:
    return Assistant(
        assistant_id=system_assistant_id(graph_id),
        graph_id=graph_id,
        config={},
        context={},
        metadata={"created_by": "system"},
        name=name,
        description=description,
        version=1,
        created_at=created_at,
        updated_at=created_at,
    )


def _update_description(connection: Connection, assistant: Assistant, now: datetime) -> None:
    content = _assistant_row(assistants, assistant)
    described = {"name": content["name"], "description": content["description"]}
    found = assistants.c.assistant_id == assistant.assistant_id
    connection.execute(update(assistants).where(found).values(**described, updated_at=to_micros(now)))
    versions = assistant_versions.c.assistant_id == assistant.assistant_id
    connection.execute(update(assistant_versions).where(versions).values(**described))


def _assistant_row(table: Table, assistant: Assistant, **overrides: object) -> dict[str, Any]:
    names = ("graph_id", "name", "description")
    texts = {name: storable_text(value) for name in names if (value := getattr(assistant, name)) is not None}
    return to_row(table, assistant, **texts, **overrides)


def _update_assistant(connection: Connection, assistant: Assistant) -> None:
    found = assistants.c.assistant_id == assistant.assistant_id
    connection.execute(update(assistants).where(found).values(**_assistant_row(assistants, assistant)))
