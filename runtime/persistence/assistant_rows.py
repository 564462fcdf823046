"""Read and write the rows of assistants and their versions; every function works in its caller's transaction."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import Assistant, AssistantPatch, AssistantVersion
from toolweave.runtime.persistence.json_text import from_json, from_micros, to_json, to_micros
from toolweave.runtime.persistence.search import bindable
from toolweave.runtime.persistence.tables import assistant_versions, assistants, crons

# The official server derives the ids of its system assistants from this one, and clients have them stored.
NAMESPACE = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
# The largest version number that a column of every database holds.
LAST_VERSION = 2**31 - 1


def system_assistant_id(graph_id: str) -> str:
    """Give the id of the assistant that every graph has by itself."""
    return str(uuid5(NAMESPACE, bindable(graph_id)))


def sync_system(
    connection: Connection, graphs: Mapping[str, str | None], names: Mapping[str, str], now: datetime
) -> None:
    """Make one system assistant per graph (id to description) and drop those of graphs that are gone.

    `names` has those of graphs that have a name of their own.
    """
    edited = select(assistant_versions.c.assistant_id).where(assistant_versions.c.version > 1)
    theirs = set(connection.execute(edited).scalars()) | set(connection.execute(select(crons.c.assistant_id)).scalars())
    known = {row.assistant_id: row for row in connection.execute(select(assistants))}
    for index, (graph_id, description) in enumerate(graphs.items()):
        # One after the other: searches show the newest first.
        made = _system(graph_id, names.get(graph_id, graph_id), description, now + timedelta(microseconds=index))
        row = known.get(made.assistant_id)
        if row is None:
            insert_new(connection, made)
        elif (row.name, row.description) != (made.name, description) and made.assistant_id not in theirs:
            _describe(connection, made, now)
    for assistant_id, row in known.items():
        # One that was edited or that crons run is somebody's work: it stays, and its runs say what is missing.
        gone = row.graph_id not in graphs and assistant_id not in theirs
        if gone and assistant_id == system_assistant_id(row.graph_id):
            connection.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id))


def insert_new(connection: Connection, assistant: Assistant) -> None:
    """Insert an assistant together with its first version."""
    content = _content(assistant)
    times = {"created_at": to_micros(assistant.created_at), "updated_at": to_micros(assistant.updated_at)}
    connection.execute(insert(assistants), {**content, **times})
    connection.execute(insert(assistant_versions), {**content, "created_at": times["created_at"]})


def insert_or_find(connection: Connection, assistant: Assistant, *, do_nothing: bool) -> Assistant:
    """Insert an assistant, or give the one that has its id when nothing is to be done then.

    Raises:
        Conflict: one with this id exists, and that matters.
    """
    found = find(connection, assistant.assistant_id)
    if found is None:
        insert_new(connection, assistant)
        return required(connection, assistant.assistant_id)
    if not do_nothing:
        raise Conflict(f"Assistant {assistant.assistant_id} already exists")
    return found


def find(connection: Connection, assistant_id: str) -> Assistant | None:
    """Read an assistant; None when there is none with this id."""
    row = connection.execute(select(assistants).where(assistants.c.assistant_id == assistant_id)).one_or_none()
    return None if row is None else assistant_from(row)


def required(connection: Connection, assistant_id: str) -> Assistant:
    """Read an assistant that a change is about. Raises NotFound."""
    found = find(connection, assistant_id)
    if found is None:
        raise NotFound(f"Assistant {assistant_id} not found")
    return found


def add_version(connection: Connection, assistant_id: str, patch: AssistantPatch, now: datetime) -> Assistant:
    """Apply a patch as a new version, numbered after the newest whichever is active. Raises NotFound."""
    current = required(connection, assistant_id)
    newest = select(func.max(assistant_versions.c.version)).where(assistant_versions.c.assistant_id == assistant_id)
    version = int(connection.execute(newest).scalar_one()) + 1
    changed = replace(patch.applied_to(current), version=version, updated_at=now)
    connection.execute(insert(assistant_versions), {**_content(changed), "created_at": to_micros(now)})
    _write(connection, changed)
    return required(connection, assistant_id)


def activate_version(connection: Connection, assistant_id: str, version: int | None, now: datetime) -> Assistant:
    """Make an earlier version the active one; the context stays, as in the official server.

    Raises:
        NotFound: there is no such assistant or version.
    """
    current = required(connection, assistant_id)
    row = None
    if version is not None and 0 < version <= LAST_VERSION:
        row = connection.execute(
            select(assistant_versions).where(
                assistant_versions.c.assistant_id == assistant_id, assistant_versions.c.version == version
            )
        ).one_or_none()
    if row is None:
        raise NotFound(f"Version {version} not found for assistant {assistant_id}")
    chosen = version_from(row)
    active = replace(
        current,
        graph_id=chosen.graph_id,
        config=chosen.config,
        metadata=chosen.metadata,
        name=chosen.name,
        description=chosen.description,
        version=chosen.version,
        updated_at=now,
    )
    _write(connection, active)
    return active


def remove(connection: Connection, assistant_id: str) -> None:
    """Delete an assistant with its versions and crons. Raises NotFound."""
    if connection.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id)).rowcount == 0:
        raise NotFound(f"Assistant with ID {assistant_id} not found")


def assistant_from(row: Row[Any]) -> Assistant:
    """Read an assistant out of its row."""
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


def version_from(row: Row[Any]) -> AssistantVersion:
    """Read a version out of its row."""
    return AssistantVersion(
        assistant_id=row.assistant_id,
        version=row.version,
        graph_id=row.graph_id,
        config=from_json(row.config),
        context=from_json(row.context),
        metadata=from_json(row.metadata),
        created_at=from_micros(row.created_at),
        name=row.name,
        description=row.description,
    )


def _system(graph_id: str, name: str, description: str | None, created_at: datetime) -> Assistant:
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


def _describe(connection: Connection, assistant: Assistant, now: datetime) -> None:
    content = _content(assistant)
    described = {"name": content["name"], "description": content["description"]}
    found = assistants.c.assistant_id == assistant.assistant_id
    connection.execute(update(assistants).where(found).values(**described, updated_at=to_micros(now)))
    versions = assistant_versions.c.assistant_id == assistant.assistant_id
    connection.execute(update(assistant_versions).where(versions).values(**described))


def _content(assistant: Assistant) -> dict[str, Any]:
    return {
        "assistant_id": assistant.assistant_id,
        "graph_id": bindable(assistant.graph_id),
        "name": bindable(assistant.name),
        "description": None if assistant.description is None else bindable(assistant.description),
        "config": to_json(assistant.config),
        "context": to_json(assistant.context),
        "metadata": to_json(assistant.metadata),
        "version": assistant.version,
    }


def _write(connection: Connection, assistant: Assistant) -> None:
    connection.execute(
        update(assistants)
        .where(assistants.c.assistant_id == assistant.assistant_id)
        .values(**_content(assistant), updated_at=to_micros(assistant.updated_at))
    )
