"""Crons are stored, found and changed (langgraph_api.md 2.5, 4); in test_cron_firing.py they fire."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.api.langgraph.steering import NOBODY, new_thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
STEPS = str(uuid5(UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), "steps"))
YEARLY = "0 0 1 1 *"
NO_UUID = {"detail": "Invalid cron ID: must be a UUID"}


async def created(http: httpx.AsyncClient, **fields: Any) -> Any:
    answer = await http.post("/runs/crons", json={"assistant_id": "steps", "schedule": YEARLY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.api("POST /runs/crons", "200 creates a cron whose payload makes its runs")
async def test_a_cron_has_the_fields_of_the_api(http: httpx.AsyncClient) -> None:
    cron = await created(http, input={"n": 1}, metadata={"c": 1}, config={"tags": ["a"]})
    assert UUID(cron["cron_id"]).version == 7
    next_year = datetime.now(UTC).year + 1
    assert cron == {
        "cron_id": cron["cron_id"],
        "assistant_id": STEPS,
        "thread_id": None,
        "user_id": "",
        "end_time": None,
        "schedule": YEARLY,
        "timezone": None,
        "payload": {
            "assistant_id": STEPS,
            "schedule": YEARLY,
            "input": {"n": 1},
            "metadata": {"c": 1},
            "config": {"tags": ["a"], "configurable": {"cron_id": cron["cron_id"]}},
        },
        "next_run_date": f"{next_year}-01-01T00:00:00+00:00",
        "metadata": {"c": 1},
        "on_run_completed": "delete",
        "enabled": True,
        "created_at": cron["created_at"],
        "updated_at": cron["created_at"],
    }


@pytest.mark.api("POST /runs/crons", "200 reads the schedule in its time zone and ends it at end_time")
async def test_a_cron_follows_its_time_zone_up_to_its_end(http: httpx.AsyncClient) -> None:
    next_year = datetime.now(UTC).year + 1
    there = await created(http, timezone="America/New_York", end_time=f"{next_year}-06-01T02:00:00+02:00")
    assert there["next_run_date"] == f"{next_year}-01-01T05:00:00+00:00"
    assert there["end_time"] == f"{next_year}-06-01T00:00:00+00:00"
    assert (await created(http, end_time="2020-01-01"))["next_run_date"] is None


@pytest.mark.api("POST /threads/{thread_id}/runs/crons", "200 creates a cron whose runs share the thread")
async def test_a_cron_on_a_thread_ignores_on_run_completed(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    body = {"assistant_id": STEPS, "schedule": "@daily", "multitask_strategy": "reject", "on_run_completed": "keep"}
    answer = await http.post(f"/threads/{thread_id}/runs/crons", json=body)
    cron = answer.json()
    assert (cron["thread_id"], cron["on_run_completed"], cron["schedule"]) == (thread_id, None, "@daily")
    assert answer.headers["x-ignored-fields"] == "on_run_completed"
    await sdk.threads.delete(thread_id)
    assert (await http.get(f"/runs/crons/{cron['cron_id']}")).status_code == 404


async def test_a_cron_is_deleted_with_its_assistant(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    assistant_id = (await sdk.assistants.create("steps"))["assistant_id"]
    cron = await created(http, assistant_id=assistant_id)
    await sdk.assistants.delete(assistant_id)
    assert (await http.get(f"/runs/crons/{cron['cron_id']}")).status_code == 404


# Wrong by themselves, so refused before anything is looked up.
WRONG_FIELDS: tuple[dict[str, Any], ...] = (
    {"schedule": None},
    {"schedule": "not a cron"},
    {"schedule": "0 0 30 2 *"},
    {"schedule": "* " * 200},
    {"timezone": "Mars/X"},
    {"timezone": "../etc/passwd"},
    {"end_time": "soon"},
    {"end_time": "0001-01-01T00:00:00+23:59"},
    {"enabled": "yes"},
    {"input": "text"},
    {"stream_mode": "nope"},
    {"webhook": ""},
    {"webhook": "ftp://hooks.example/x"},
    {"webhook": "/loopback"},
)


@pytest.mark.parametrize("wrong", WRONG_FIELDS, ids=str)
async def test_a_wrong_field_is_refused_before_assistant_thread_and_cron_are_looked_up(
    sdk: LangGraphClient, http: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    before = await sdk.crons.count()
    for assistant_id in ("steps", "nope", NOBODY):
        for path in ("/runs/crons", f"/threads/{NOBODY}/runs/crons"):
            answer = await http.post(path, json={"assistant_id": assistant_id, "schedule": YEARLY, **wrong})
            assert (answer.status_code, list(answer.json())) == (422, ["detail"]), answer.text
    if "webhook" in wrong:
        assert (await http.patch(f"/runs/crons/{NOBODY}", json=wrong)).status_code == 422
    assert await sdk.crons.count() == before


@pytest.mark.api("POST /runs/crons", "400 refuses context and config.configurable together")
@pytest.mark.api("POST /runs/crons", "404 refuses an unknown assistant, by name or id")
@pytest.mark.api("POST /runs/crons", "422 refuses a missing or bad schedule, time zone, end or run field")
@pytest.mark.api("POST /threads/{thread_id}/runs/crons", "400 refuses context and config.configurable together")
@pytest.mark.api("POST /threads/{thread_id}/runs/crons", "404 refuses an unknown assistant or thread")
@pytest.mark.api(
    "POST /threads/{thread_id}/runs/crons",
    "422 refuses what a cron without a thread is refused for, and ids that are no UUID",
)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"assistant_id": "steps"}, 422),
        ({"schedule": YEARLY}, 422),
        ({"assistant_id": 5, "schedule": YEARLY}, 422),
        ({"assistant_id": "nope", "schedule": YEARLY}, 404),
        ({"assistant_id": NOBODY, "schedule": YEARLY}, 404),
        ({"assistant_id": "talk", "schedule": YEARLY, "context": {"a": 1}, "config": {"configurable": {"a": 1}}}, 400),
    ],
)
async def test_a_bad_cron_is_refused(
    sdk: LangGraphClient, http: httpx.AsyncClient, body: dict[str, Any], status: int
) -> None:
    before = await sdk.crons.count()
    for path in ("/runs/crons", f"/threads/{await new_thread(sdk)}/runs/crons"):
        answer = await http.post(path, json=body)
        assert answer.status_code == status, answer.text
        assert list(answer.json()) == ["detail"]
    whole = {"assistant_id": "steps", "schedule": YEARLY}
    assert (await http.post(f"/threads/{NOBODY}/runs/crons", json=whole)).status_code == 404
    assert (await http.post("/threads/zz/runs/crons", json=whole)).status_code == 422
    assert await sdk.crons.count() == before


@pytest.mark.api("POST /runs/crons/search", "200 filters, sorts, pages and selects, newest first")
@pytest.mark.api("POST /runs/crons/count", "200 counts what a search would find")
async def test_crons_are_found(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    key = str(uuid4())
    thread_id = await new_thread(sdk)
    first: Any = await sdk.crons.create("steps", schedule=YEARLY, metadata={"key": key}, enabled=False)
    second: Any = await sdk.crons.create_for_thread(thread_id, "ask", schedule="@daily", metadata={"key": key})
    ids = [second["cron_id"], first["cron_id"]]

    async def found(**query: Any) -> list[str]:
        return [cron["cron_id"] for cron in await sdk.crons.search(metadata={"key": key}, **query)]

    assert await found() == ids
    assert await found(sort_by="next_run_date", sort_order="asc") == ids
    assert await found(sort_by="created_at", sort_order="asc") == ids[::-1]
    assert await found(enabled=False) == await found(assistant_id=STEPS) == ids[1:]
    assert await found(thread_id=thread_id) == ids[:1]
    assert await sdk.crons.count(metadata={"key": key}) == 2
    assert await sdk.crons.count(metadata={"key": key}, thread_id=thread_id) == 1
    body = {"metadata": {"key": key}, "limit": 1, "select": ["schedule"]}
    answer = await http.post("/runs/crons/search", json=body)
    assert answer.json() == [{"schedule": "@daily"}]
    assert (answer.headers["x-pagination-total"], answer.headers["x-pagination-next"]) == ("2", "1")


@pytest.mark.api("POST /runs/crons/search", "422 refuses ids that are no UUID, a bad page, sorting or selection")
@pytest.mark.api("POST /runs/crons/count", "422 refuses ids that are no UUID and a body that is no JSON")
@pytest.mark.parametrize("body", [b"", b"[]", b'{"assistant_id":"steps"}', b'{"thread_id":"zz"}', b'{"metadata":1}'])
async def test_a_bad_search_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    for question in ("search", "count"):
        assert (await http.post(f"/runs/crons/{question}", content=body)).status_code == 422
    for bad in ({"limit": 0}, {"sort_by": "schedule"}, {"select": ["nope"]}, {"enabled": 1}):
        assert (await http.post("/runs/crons/search", json=bad)).status_code == 422


@pytest.mark.api("GET /runs/crons/{cron_id}", "200 gives a cron")
@pytest.mark.api(
    "PATCH /runs/crons/{cron_id}", "200 replaces fields, merges metadata and says when the cron fires next"
)
async def test_a_cron_is_changed(http: httpx.AsyncClient) -> None:
    cron = await created(http, input={"n": 1}, metadata={"a": 1}, end_time="2020-01-01")
    path = f"/runs/crons/{cron['cron_id']}"
    change = {"metadata": {"b": 2}, "input": {"n": 2}, "config": {"tags": ["x"]}, "on_run_completed": "keep"}
    changed = (await http.patch(path, json=change)).json()
    assert (changed["metadata"], changed["on_run_completed"]) == ({"a": 1, "b": 2}, "keep")
    marked = {"tags": ["x"], "configurable": {"cron_id": cron["cron_id"]}}
    assert (changed["payload"]["input"], changed["payload"]["config"]) == ({"n": 2}, marked)
    assert (changed["next_run_date"], changed["end_time"]) == (None, "2020-01-01T00:00:00+00:00")

    endless = (await http.patch(path, json={"end_time": None, "enabled": False})).json()
    assert (endless["end_time"], endless["enabled"]) == (None, False)
    assert endless["next_run_date"] == f"{datetime.now(UTC).year + 1}-01-01T00:00:00+00:00"
    moved = (await http.patch(path, json={"schedule": "0 0 1 7 *", "timezone": "Asia/Tokyo"})).json()
    assert moved["next_run_date"].endswith("-06-30T15:00:00+00:00")
    assert moved["updated_at"] > cron["updated_at"]
    assert (await http.get(path)).json() == moved


@pytest.mark.api(
    "PATCH /runs/crons/{cron_id}", "400 refuses an empty change, and context and config.configurable together"
)
@pytest.mark.api("PATCH /runs/crons/{cron_id}", "404 refuses an unknown cron")
@pytest.mark.api("PATCH /runs/crons/{cron_id}", "422 refuses what a new cron is refused for, and ids that are no UUID")
async def test_a_bad_change_is_refused(http: httpx.AsyncClient) -> None:
    cron = await created(http, assistant_id="talk", config={"configurable": {"a": 1}})
    path = f"/runs/crons/{cron['cron_id']}"
    for change in ({}, {"context": {"a": 1}}):
        assert (await http.patch(path, json=change)).status_code == 400
    for bad in ({"schedule": "x"}, {"timezone": "x"}, {"end_time": "x"}, {"on_run_completed": "x"}, {"enabled": "x"}):
        assert (await http.patch(path, json=bad)).status_code == 422
    assert (await http.patch(path)).status_code == 422
    assert (await http.patch(f"/runs/crons/{NOBODY}", json={"enabled": False})).status_code == 404
    answer = await http.patch("/runs/crons/zz", json={"enabled": False})
    assert (answer.status_code, answer.json()) == (422, NO_UUID)
    assert (await http.get(path)).json() == cron


@pytest.mark.api("GET /runs/crons/{cron_id}", "404 refuses an unknown cron")
@pytest.mark.api("GET /runs/crons/{cron_id}", "422 refuses ids that are no UUID")
@pytest.mark.api("DELETE /runs/crons/{cron_id}", "204 deletes a cron")
@pytest.mark.api("DELETE /runs/crons/{cron_id}", "404 refuses an unknown cron")
@pytest.mark.api("DELETE /runs/crons/{cron_id}", "422 refuses ids that are no UUID")
async def test_a_deleted_cron_is_gone(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    path = f"/runs/crons/{(await created(http))['cron_id']}"
    answer = await http.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    for ask in (http.get, http.delete):
        assert (await ask(path)).json() == {"detail": "Not Found"}
        bad = await ask("/runs/crons/zz")
        assert (bad.status_code, bad.json()) == (422, NO_UUID)
    with pytest.raises(NotFoundError):
        await sdk.crons.delete(NOBODY)
