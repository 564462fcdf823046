"""Assistants are created, changed version by version, rolled back and deleted (langgraph_api.md 2.1, 4)."""

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError, UnprocessableEntityError

from tests.api.langgraph.steering import NOBODY, new_thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
NO_UUID = {"detail": "Invalid assistant ID: must be a UUID"}


@pytest.mark.api("POST /assistants", "200 creates version 1, named Untitled, with an id of the server's")
async def test_an_assistant_needs_no_more_than_a_graph(sdk: LangGraphClient) -> None:
    created: Any = await sdk.assistants.create("steps")
    assert UUID(created["assistant_id"]).version == 4
    assert created == await sdk.assistants.get(created["assistant_id"])
    assert (created["name"], created["version"], created["description"]) == ("Untitled", 1, None)
    assert (created["config"], created["context"], created["metadata"]) == ({}, {}, {})


@pytest.mark.api("POST /assistants", "200 shows the context as config.configurable and the other way round")
async def test_context_and_configurable_are_two_names_of_the_same_values(sdk: LangGraphClient) -> None:
    by_context: Any = await sdk.assistants.create("talk", context={"greeting": "hi"}, config={"tags": ["a"]})
    assert by_context["config"] == {"tags": ["a"], "configurable": {"greeting": "hi"}}
    by_config: Any = await sdk.assistants.create("talk", config={"configurable": {"greeting": "hi"}})
    assert by_config["context"] == {"greeting": "hi"}
    for assistant in (by_context, by_config):
        question: Any = {"messages": [{"role": "user", "content": "you"}]}
        result: Any = await sdk.runs.wait(None, assistant["assistant_id"], input=question)
        assert result["messages"][-1]["content"] == "hi you"


@pytest.mark.api("POST /assistants", "200 gives the one that exists with if_exists do_nothing")
@pytest.mark.api("POST /assistants", "409 refuses an id that exists")
async def test_an_assistant_id_can_be_used_once(sdk: LangGraphClient) -> None:
    assistant_id = str(uuid4())
    created = await sdk.assistants.create("steps", assistant_id=assistant_id.upper(), name="first")
    assert created["assistant_id"] == assistant_id
    again = await sdk.assistants.create("talk", assistant_id=assistant_id, if_exists="do_nothing")
    assert again == created
    with pytest.raises(ConflictError, match="already exists"):
        await sdk.assistants.create("steps", assistant_id=assistant_id)


@pytest.mark.api("POST /assistants", "400 refuses context and config.configurable together")
@pytest.mark.api("POST /assistants", "404 refuses a graph that is not served")
@pytest.mark.api("POST /assistants", "422 refuses a body without a graph or of wrong types")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"graph_id": "steps", "assistant_id": "zz"}, 422),
        ({"graph_id": "not served", "assistant_id": "zz"}, 422),
        ({"graph_id": "steps", "name": 5}, 422),
        ({"graph_id": "steps", "if_exists": "replace"}, 422),
        ({"graph_id": "steps", "config": {"recursion_limit": "many"}}, 422),
        ({"graph_id": "nope"}, 404),
        ({"graph_id": "talk", "context": {"a": 1}, "config": {"configurable": {"a": 1}}}, 400),
    ],
)
async def test_a_bad_assistant_is_refused(http: httpx.AsyncClient, body: dict[str, Any], status: int) -> None:
    answer = await http.post("/assistants", json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["detail"]


async def test_a_field_without_effect_is_named(http: httpx.AsyncClient) -> None:
    answer = await http.post("/assistants", json={"graph_id": "steps", "descripton": "typo"})
    assert (answer.status_code, answer.headers["x-ignored-fields"]) == (200, "descripton")


@pytest.mark.api("PATCH /assistants/{assistant_id}", "200 makes a new version, also of nothing; metadata is merged")
@pytest.mark.api(
    "POST /assistants/{assistant_id}/versions", "200 lists versions newest first, paged and filtered by metadata"
)
@pytest.mark.api("POST /assistants/{assistant_id}/latest", "200 makes an earlier version the active one")
async def test_every_change_is_a_version_and_any_can_be_active(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    created = await sdk.assistants.create("steps", name="one", metadata={"k": 1})
    assistant_id = created["assistant_id"]
    await sdk.assistants.update(assistant_id, name="two", graph_id="talk", metadata={"m": 2})
    third: Any = (await http.patch(f"/assistants/{assistant_id}", json={})).json()
    assert (third["version"], third["name"], third["graph_id"]) == (3, "two", "talk")
    assert third["metadata"] == {"k": 1, "m": 2}

    back: Any = await sdk.assistants.set_latest(assistant_id, 1)
    assert back == {**created, "updated_at": back["updated_at"]}
    fourth = await sdk.assistants.update(assistant_id, description="four")
    assert (fourth["version"], fourth["name"], fourth["graph_id"]) == (4, "one", "steps")

    listed: Any = (await http.post(f"/assistants/{assistant_id}/versions", json={})).json()
    assert [version["version"] for version in listed] == [4, 3, 2, 1]
    assert listed[3] == {name: created[name] for name in created if name != "updated_at"}  # type: ignore[literal-required]
    assert [found["version"] for found in await sdk.assistants.get_versions(assistant_id, metadata={"m": 2})] == [3, 2]
    assert [found["version"] for found in await sdk.assistants.get_versions(assistant_id, limit=1, offset=1)] == [3]
    assert await sdk.assistants.get_versions(assistant_id, offset=9) == []


async def test_a_system_assistant_has_a_first_version_too(sdk: LangGraphClient) -> None:
    (system,) = await sdk.assistants.search(graph_id="made", metadata={"created_by": "system"})
    (version,) = await sdk.assistants.get_versions(system["assistant_id"])
    assert (version["version"], version["metadata"]) == (1, {"created_by": "system"})


@pytest.mark.api("PATCH /assistants/{assistant_id}", "400 refuses context and config.configurable together")
@pytest.mark.api("PATCH /assistants/{assistant_id}", "404 refuses an unknown assistant or graph")
@pytest.mark.api("PATCH /assistants/{assistant_id}", "422 refuses wrong types and ids that are no UUID")
async def test_a_bad_change_is_refused(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    assistant_id = (await sdk.assistants.create("talk"))["assistant_id"]
    with pytest.raises(BadRequestError):
        await sdk.assistants.update(assistant_id, context={"a": 1}, config={"configurable": {"a": 1}})
    with pytest.raises(NotFoundError):
        await sdk.assistants.update(assistant_id, graph_id="nope")
    with pytest.raises(NotFoundError, match=f"Assistant {NOBODY} not found"):
        await sdk.assistants.update(NOBODY, name="x")
    assert (await http.patch(f"/assistants/{assistant_id}", json={"name": 1})).status_code == 422
    assert (await http.patch(f"/assistants/{assistant_id}")).json() == {"detail": "Invalid JSON in request body"}
    answer = await http.patch("/assistants/talk", json={})
    assert (answer.status_code, answer.json()) == (422, NO_UUID)
    assert (await sdk.assistants.get(assistant_id))["version"] == 1


@pytest.mark.api("POST /assistants/{assistant_id}/versions", "404 refuses an unknown assistant")
@pytest.mark.api(
    "POST /assistants/{assistant_id}/versions", "422 refuses an empty body, a bad page and ids that are no UUID"
)
@pytest.mark.api(
    "POST /assistants/{assistant_id}/latest", "404 refuses an unknown assistant or version, and a missing one"
)
@pytest.mark.api(
    "POST /assistants/{assistant_id}/latest", "422 refuses a version that is no integer and ids that are no UUID"
)
async def test_versions_that_do_not_exist_are_not_found(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    path = f"/assistants/{(await sdk.assistants.create('steps'))['assistant_id']}"
    for body in ({}, {"version": 0}, {"version": 2}, {"version": 2**63 - 1}):
        assert (await http.post(f"{path}/latest", json=body)).status_code == 404, body
    for other in ("latest", "versions"):
        assert (await http.post(f"/assistants/{NOBODY}/{other}", json={"version": 1})).status_code == 404
        answer = await http.post(f"/assistants/zz/{other}", json={"version": 1})
        assert (answer.status_code, answer.json()) == (422, NO_UUID)
        assert (await http.post(f"{path}/{other}")).status_code == 422
    for version in ("1", None):
        assert (await http.post(f"{path}/latest", json={"version": version})).status_code == 422
    assert (await http.post(f"{path}/versions", json={"limit": 0})).status_code == 422


@pytest.mark.api("DELETE /assistants/{assistant_id}", "204 deletes the assistant and leaves its threads")
@pytest.mark.api("DELETE /assistants/{assistant_id}", "404 refuses an unknown assistant")
@pytest.mark.api(
    "DELETE /assistants/{assistant_id}", "422 refuses ids that are no UUID and a delete_threads that is no boolean"
)
async def test_a_deleted_assistant_is_gone_and_its_threads_are_not(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    assistant_id = (await sdk.assistants.create("steps"))["assistant_id"]
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, assistant_id, input={"n": 1})
    assert (await http.delete(f"/assistants/{assistant_id}?delete_threads=maybe")).status_code == 422
    answer = await http.delete(f"/assistants/{assistant_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    for gone in (sdk.assistants.get(assistant_id), sdk.assistants.delete(assistant_id), sdk.assistants.delete(NOBODY)):
        with pytest.raises(NotFoundError):
            await gone
    assert (await http.delete(f"/assistants/{NOBODY}?delete_threads=true")).status_code == 404
    with pytest.raises(UnprocessableEntityError):
        await sdk.assistants.delete("steps")
    assert (await sdk.threads.get(thread_id))["status"] == "idle"
    answer = await http.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": assistant_id})
    assert answer.status_code == 404


@pytest.mark.api("DELETE /assistants/{assistant_id}", "204 deletes its threads on request and stops their runs")
async def test_delete_threads_deletes_the_assistants_threads_with_their_runs(
    sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    assistant_id = (await sdk.assistants.create("gated"))["assistant_id"]
    finished, busy, other = [await new_thread(sdk) for _ in range(3)]
    for thread_id in (finished, other):
        await sdk.runs.wait(thread_id, "steps", input={"n": 1})
    await sdk.threads.update(finished, metadata={"assistant_id": assistant_id})
    gate = str(uuid4())
    run_id = (await sdk.runs.create(busy, assistant_id, input={"gate": gate}))["run_id"]
    await http.get(f"/gates/{gate}/reached")
    await sdk.assistants.delete(assistant_id, delete_threads=True)
    for absent in (sdk.threads.get(finished), sdk.threads.get(busy), sdk.runs.get(busy, run_id)):
        with pytest.raises(NotFoundError):
            await absent
    assert (await sdk.threads.get(other))["status"] == "idle"
