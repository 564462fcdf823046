"""Every served graph has a system assistant (langgraph_api.md 2.1, 3)."""

from typing import Any
from uuid import uuid4

import pytest

from tests.runtime.persistence.records import MOMENT
from toolweave.errors import NotFound
from toolweave.runtime.models import Assistant, AssistantPatch
from toolweave.runtime.persistence.assistants import AssistantRepository
from toolweave.runtime.persistence.data_folder import Persistence

ECHO = "046b5dc7-2108-582c-9c6c-31d556d138f0"


@pytest.fixture
async def assistants(persistence: Persistence) -> AssistantRepository:
    await persistence.assistants.sync_system({"echo": None, "counter": "Counts.", "100%_real": None})
    return persistence.assistants


async def test_syncing_again_keeps_assistants_and_takes_new_descriptions(assistants: AssistantRepository) -> None:
    before = {assistant.graph_id: assistant for assistant in await assistants.search()}

    await assistants.sync_system({"echo": None, "counter": "Counts up.", "100%_real": None})

    after = {assistant.graph_id: assistant for assistant in await assistants.search()}
    assert after["echo"] == before["echo"]
    assert after["counter"].description == "Counts up."
    assert after["counter"].created_at == before["counter"].created_at


async def test_the_assistant_of_a_graph_that_is_gone_goes_too(assistants: AssistantRepository) -> None:
    await assistants.sync_system({"counter": "Counts."})

    assert [assistant.graph_id for assistant in await assistants.search()] == ["counter"]
    with pytest.raises(NotFound, match=r"^Not Found$"):
        await assistants.get(ECHO)


async def test_an_assistant_is_found_by_id_and_by_graph_name(assistants: AssistantRepository) -> None:
    assert (await assistants.resolve(ECHO)).graph_id == "echo"
    assert (await assistants.resolve(ECHO.upper())).graph_id == "echo"
    assert (await assistants.resolve("counter")).graph_id == "counter"
    for unknown in ("nope", "00000000-0000-4000-8000-000000000000", "", "\ud800"):
        with pytest.raises(NotFound):
            await assistants.resolve(unknown)


async def test_a_search_takes_any_text_of_a_name(assistants: AssistantRepository) -> None:
    async def names(**query: object) -> list[str]:
        return [assistant.name for assistant in await assistants.search(**query)]  # type: ignore[arg-type]

    assert await names(name="%_") == ["100%_real"]
    assert await names(name="\ud800") == []


def made(**fields: Any) -> Assistant:
    described: dict[str, Any] = {
        "assistant_id": str(uuid4()),
        "graph_id": "echo",
        "config": {},
        "context": {},
        "metadata": {},
        "name": "Untitled",
        "description": None,
        "version": 1,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
    return Assistant(**{**described, **fields})


@pytest.mark.parametrize(
    ("before", "patch", "config", "context"),
    [
        ({"tags": ["a"]}, {"context": {"p": 1}}, {"configurable": {"p": 1}}, {"p": 1}),
        ({"tags": ["a"]}, {"config": {"configurable": {"p": 1}}}, {"configurable": {"p": 1}}, {"p": 1}),
        ({"tags": ["a"]}, {"config": {}}, {"tags": ["a"]}, {"old": 0}),
        ({"tags": ["a"]}, {"config": {"recursion_limit": 5}}, {"recursion_limit": 5}, {"old": 0}),
        ({"tags": ["a"]}, {"context": {}}, {"tags": ["a"]}, {}),
        (
            {"tags": ["a"]},
            {"config": {"tags": ["b"]}, "context": {"p": 1}},
            {"tags": ["b"], "configurable": {"p": 1}},
            {"p": 1},
        ),
    ],
)
async def test_context_and_configurable_mirror_each_other(
    assistants: AssistantRepository,
    before: dict[str, Any],
    patch: dict[str, Any],
    config: dict[str, Any],
    context: dict[str, Any],
) -> None:
    created = await assistants.create(made(config=before, context={"old": 0}))
    changed = await assistants.patch(created.assistant_id, AssistantPatch(**patch))
    assert (changed.config, changed.context) == (config, context)


async def test_hostile_names_are_stored_as_text_that_a_database_accepts(assistants: AssistantRepository) -> None:
    created = await assistants.create(made(name="a\ud800\0", description="\udfff", metadata={"k": "\ud800"}))
    assert created == await assistants.get(created.assistant_id)
    assert (created.name, created.metadata) == ("a??", {"k": "\ud800"})


async def test_a_deleted_system_assistant_is_back_at_the_next_start(assistants: AssistantRepository) -> None:
    await assistants.delete(ECHO)
    await assistants.sync_system({"echo": "Echoes.", "counter": "Counts."})
    assert (await assistants.get(ECHO)).description == "Echoes."


async def test_an_edited_system_assistant_is_left_alone_at_the_next_start(assistants: AssistantRepository) -> None:
    await assistants.patch(ECHO, AssistantPatch(name="mine"))
    edited = await assistants.set_latest(ECHO, 1)
    for graphs in ({"echo": "Echoes."}, {"counter": "Counts."}):
        await assistants.sync_system(graphs)
        assert await assistants.get(ECHO) == edited
