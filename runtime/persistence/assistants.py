"""Keep assistants: the configurations under which graphs run."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Select, func, select

from toolweave.errors import NotFound
from toolweave.runtime.models import Assistant, AssistantPatch, AssistantVersion, JsonObject
from toolweave.runtime.persistence import assistant_rows
from toolweave.runtime.persistence.assistant_rows import assistant_from, system_assistant_id, version_from
from toolweave.runtime.persistence.clock import utc_now
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.search import LAST_ROW, bindable, page, where_contains
from toolweave.runtime.persistence.tables import assistant_versions, assistants
from toolweave.runtime.persistence.visibility import where_visible

AssistantSort = Literal["assistant_id", "created_at", "updated_at", "name", "graph_id"]


class AssistantRepository:
    """The assistants of all graphs."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def sync_system(self, graphs: Mapping[str, str | None], names: Mapping[str, str] | None = None) -> None:
        """Make one system assistant per graph (id to description) and drop those of graphs that are gone.

        They are named after their graphs; `names` has the names of those that have one beside their id.
        """
        now = self._clock()
        await self._database.write(lambda connection: assistant_rows.sync_system(connection, graphs, names or {}, now))

    async def get(self, assistant_id: str) -> Assistant:
        """Return an assistant.

        Raises:
            NotFound: there is none with this id.
        """

        def work(connection: Connection) -> Assistant:
            found = assistant_rows.find(connection, assistant_id)
            if found is None:
                raise NotFound("Not Found")
            return found

        return await self._database.read(work)

    async def create(self, assistant: Assistant, if_exists: Literal["raise", "do_nothing"] = "raise") -> Assistant:
        """Create an assistant with its first version, or return the one that exists if `if_exists` is do_nothing.

        Raises:
            Conflict: one with this id exists and `if_exists` is raise.
        """
        lenient = if_exists == "do_nothing"
        return await self._database.write(
            lambda connection: assistant_rows.insert_or_find(connection, assistant, do_nothing=lenient)
        )

    async def patch(self, assistant_id: str, patch: AssistantPatch) -> Assistant:
        """Change an assistant; every change, also one of nothing, is a new version.

        Raises:
            NotFound: there is none with this id.
        """
        now = self._clock()
        return await self._database.write(
            lambda connection: assistant_rows.add_version(connection, assistant_id, patch, now)
        )

    async def set_latest(self, assistant_id: str, version: int | None) -> Assistant:
        """Make a version the active one.

        Raises:
            NotFound: there is no such assistant or version.
        """
        now = self._clock()
        return await self._database.write(
            lambda connection: assistant_rows.activate_version(connection, assistant_id, version, now)
        )

    async def versions(
        self, assistant_id: str, *, metadata: JsonObject | None = None, limit: int = 10, offset: int = 0
    ) -> list[AssistantVersion]:
        """Return the versions that contain the metadata, newest first.

        Raises:
            NotFound: there is no assistant with this id.
        """
        query = where_contains(
            select(assistant_versions).where(assistant_versions.c.assistant_id == assistant_id),
            assistant_versions.c.metadata,
            metadata,
        )
        query = query.order_by(assistant_versions.c.version.desc()).limit(limit).offset(min(offset, LAST_ROW))

        def work(connection: Connection) -> list[AssistantVersion]:
            assistant_rows.required(connection, assistant_id)
            return [version_from(row) for row in connection.execute(query)]

        return await self._database.read(work)

    async def delete(self, assistant_id: str) -> None:
        """Delete an assistant with its versions and crons; its runs and threads stay.

        Raises:
            NotFound: there is none with this id.
        """
        await self._database.write(lambda connection: assistant_rows.remove(connection, assistant_id))

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
        return await self._database.read(lambda connection: [assistant_from(row) for row in connection.execute(query)])

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
        # Not LIKE: SQLite refuses long patterns.
        query = query.where(func.instr(func.lower(assistants.c.name), func.lower(bindable(name))) > 0)
    query = where_visible(query, "assistants", assistants.c.metadata)
    return where_contains(query, assistants.c.metadata, metadata)
