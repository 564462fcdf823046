"""Keep assistants: the configurations under which graphs run."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid5

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from toolweave.errors import NotFound
from toolweave.runtime.models import Assistant, JsonObject
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.json_text import from_json, from_micros, to_json, to_micros
from toolweave.runtime.persistence.search import bindable, page, where_contains
from toolweave.runtime.persistence.tables import assistant_versions, assistants

# The official server derives the ids of its system assistants from this one, and clients have them stored.
NAMESPACE = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

AssistantSort = Literal["assistant_id", "created_at", "updated_at", "name", "graph_id"]


def system_assistant_id(graph_id: str) -> str:
    """Give the id of the assistant that every graph has by itself."""
    return str(uuid5(NAMESPACE, bindable(graph_id)))


class AssistantRepository:
    """The assistants of all graphs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sync_system(self, graphs: Mapping[str, str | None]) -> None:
        """Make one system assistant per graph (name to description) and drop those of graphs that are gone."""
        await self._database.write(lambda connection: _sync_system(connection, graphs))

    async def get(self, assistant_id: str) -> Assistant:
        """Return an assistant.

        Raises:
            NotFound: there is none with this id.
        """

        def work(connection: Connection) -> Assistant:
            row = connection.execute(select(assistants).where(assistants.c.assistant_id == assistant_id)).one_or_none()
            if row is None:
                raise NotFound("Not Found")
            return _assistant_from(row)

        return await self._database.read(work)

    async def resolve(self, assistant: str) -> Assistant:
        """Return the assistant with this id, or the system assistant of the graph with this name.

        Raises:
            NotFound: it is neither.
        """
        return await self.get(_id_of(assistant))

    async def search(
        self,
        *,
        metadata: JsonObject | None = None,
        graph_id: str | None = None,
        name: str | None = None,
        limit: int = 10,
        offset: int = 0,
        sort_by: AssistantSort | None = None,
        sort_order: Literal["asc", "desc"] | None = None,
    ) -> list[Assistant]:
        """Return the assistants that contain the metadata, belong to the graph and have `name` in their name."""
        keys = _filtered(select(assistants.c.assistant_id), metadata, graph_id, name)
        query = page(keys, assistants, sort_by or "created_at", sort_order, limit, offset)
        return await self._database.read(lambda connection: [_assistant_from(row) for row in connection.execute(query)])

    async def count(
        self, *, metadata: JsonObject | None = None, graph_id: str | None = None, name: str | None = None
    ) -> int:
        """Count what search would find."""
        query = _filtered(select(func.count()).select_from(assistants), metadata, graph_id, name)
        return await self._database.read(lambda connection: int(connection.execute(query).scalar_one()))


def _id_of(assistant: str) -> str:
    try:
        return str(UUID(assistant))
    except ValueError:
        return system_assistant_id(assistant)


def _filtered(query: Select[Any], metadata: JsonObject | None, graph_id: str | None, name: str | None) -> Select[Any]:
    if graph_id is not None:
        query = query.where(assistants.c.graph_id == bindable(graph_id))
    if name is not None:
        query = query.where(assistants.c.name.icontains(bindable(name), autoescape=True))
    return where_contains(query, assistants.c.metadata, metadata)


def _sync_system(connection: Connection, graphs: Mapping[str, str | None]) -> None:
    known = {row.assistant_id: row for row in connection.execute(select(assistants))}
    now = datetime.now(UTC)
    for index, (graph_id, description) in enumerate(graphs.items()):
        assistant_id = system_assistant_id(graph_id)
        row = known.get(assistant_id)
        if row is None:
            # One after the other: searches show the newest first.
            _insert_system(connection, assistant_id, graph_id, description, now + timedelta(microseconds=index))
        elif row.version == 1 and row.description != description:
            connection.execute(
                update(assistants)
                .where(assistants.c.assistant_id == assistant_id)
                .values(description=description, updated_at=to_micros(now))
            )
    for assistant_id, row in known.items():
        # An edited one is somebody's work: it stays, and its runs say that the graph is missing.
        if assistant_id == system_assistant_id(row.graph_id) and row.graph_id not in graphs and row.version == 1:
            connection.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id))


def _insert_system(
    connection: Connection, assistant_id: str, graph_id: str, description: str | None, created_at: datetime
) -> None:
    content = {
        "assistant_id": assistant_id,
        "graph_id": graph_id,
        "name": graph_id,
        "description": description,
        "config": to_json({}),
        "context": to_json({}),
        "metadata": to_json({"created_by": "system"}),
        "version": 1,
        "created_at": to_micros(created_at),
    }
    connection.execute(insert(assistants), {**content, "updated_at": to_micros(created_at)})
    connection.execute(insert(assistant_versions), content)


def _assistant_from(row: Row[Any]) -> Assistant:
    return Assistant(
        assistant_id=row.assistant_id,
        graph_id=row.graph_id,
        config=from_json(row.config),
        context=from_json(row.context),
        metadata=from_json(row.metadata),
        name=row.name,
        description=row.description,
        version=row.version,
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
    )
