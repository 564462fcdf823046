"""Every served graph has a system assistant (langgraph_api.md 2.1, 3)."""

import pytest

from toolweave.errors import NotFound
from toolweave.runtime.persistence.assistants import AssistantRepository
from toolweave.runtime.persistence.opening import Persistence

ECHO = "046b5dc7-2108-582c-9c6c-31d556d138f0"


@pytest.fixture
async def assistants(persistence: Persistence) -> AssistantRepository:
    await persistence.assistants.sync_system({"echo": None, "counter": "Counts.", "100%_real": None})
    return persistence.assistants


async def test_a_graph_has_one_system_assistant_with_the_id_that_clients_know(assistants: AssistantRepository) -> None:
    echo = await assistants.get(ECHO)

    assert (echo.graph_id, echo.name, echo.version, echo.description) == ("echo", "echo", 1, None)
    assert (echo.metadata, echo.config, echo.context) == ({"created_by": "system"}, {}, {})
    assert echo.created_at == echo.updated_at


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


async def test_search_filters_sorts_and_pages(assistants: AssistantRepository) -> None:
    async def names(**query: object) -> list[str]:
        return [assistant.name for assistant in await assistants.search(**query)]  # type: ignore[arg-type]

    assert await names() == ["100%_real", "counter", "echo"]
    assert await names(sort_by="name", sort_order="asc", limit=1, offset=1) == ["counter"]
    assert await names(name="ECH") == ["echo"]
    assert await names(name="%_") == ["100%_real"]
    assert await names(name="\ud800") == []
    assert await names(graph_id="counter") == ["counter"]
    assert await names(metadata={"created_by": "system"}, limit=2) == ["100%_real", "counter"]
    assert await names(metadata={"created_by": "user"}) == []
    assert await assistants.count(metadata={"created_by": "system"}) == 3
    assert await assistants.count(name="e") == 3
