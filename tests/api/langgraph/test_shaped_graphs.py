"""What a graph declares holds over the API, too: its output, its context, its name, what its factory is asked for."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"


async def wait(http: httpx.AsyncClient, thread_id: str, assistant_id: str, **fields: Any) -> Any:
    answer = await http.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": assistant_id, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_run_gives_and_streams_the_output_schema_and_its_thread_keeps_all(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str
) -> None:
    assert await wait(http, thread_id, "narrow", input={"question": "why"}) == {"answer": "why, hm!"}
    whole = {"question": "why", "draft": "why, hm", "answer": "why, hm!"}
    assert (await sdk.threads.get(thread_id))["values"] == whole
    assert (await sdk.threads.get_state(thread_id))["values"] == whole
    stream = sdk.runs.stream(None, "narrow", input={"question": "why"}, stream_mode=["values", "updates"])
    parts = [(part.event, part.data) async for part in stream]
    assert parts[1:] == [
        ("updates", {"draft": None}),
        ("updates", {"answer": {"answer": "why, hm!"}}),
        ("values", {"answer": "why, hm!"}),
    ]


async def test_a_run_that_stops_before_any_output_gives_the_state_it_left(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str
) -> None:
    stopped = await wait(http, thread_id, "narrow", input={"question": "why"}, interrupt_after=["draft"])
    assert stopped == {"question": "why", "draft": "why, hm"}
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"
    assert await wait(http, thread_id, "narrow", input=None) == {"answer": "why, hm!"}


@pytest.mark.parametrize(
    ("graph_id", "fields", "shown"),
    [
        ("with_settings", {}, "Settings(user='nobody', labels=[])"),
        ("with_settings", {"context": {"user": "me", "other": 1}}, "Settings(user='me', labels=[])"),
        ("with_settings", {"config": {"configurable": {"other": 1}}}, "Settings(user='nobody', labels=[])"),
        ("with_wishes", {}, "None"),
        ("with_wishes", {"context": {"user": "me", "other": 1}}, "{'user': 'me'}"),
        ("with_wishes", {"context": {"other": 1}}, "None"),
    ],
)
async def test_a_node_gets_the_context_that_its_graph_declares(
    http: httpx.AsyncClient, thread_id: str, graph_id: str, fields: dict[str, Any], shown: str
) -> None:
    assert (await wait(http, thread_id, graph_id, input={}, **fields))["shown"] == shown


async def test_a_function_that_asks_before_it_has_given_anything_shows_its_question(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str
) -> None:
    asked = await wait(http, thread_id, "asking_function", input="tea")
    assert [question["value"] for question in asked["__interrupt__"]] == [{"about": "tea"}]
    (run,) = await sdk.runs.list(thread_id)
    joined = (await http.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")).json()
    assert joined == asked
    answered = await wait(http, thread_id, "asking_function", command={"resume": "green"})
    assert answered == {"topic": "tea", "answer": "green"}


async def test_a_question_beside_a_failing_node_stays_on_the_thread(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str
) -> None:
    answer = await wait(http, thread_id, "half_failing", input={}, config={"max_concurrency": 1})
    assert answer["__error__"]["message"] == "this half fails"
    thread = await sdk.threads.get(thread_id)
    assert thread["status"] == "error"
    assert [question["value"] for asked in thread["interrupts"].values() for question in asked] == ["still there?"]


async def test_a_graph_lends_its_assistant_the_name_it_was_compiled_with(sdk: LangGraphClient) -> None:
    (assistant,) = await sdk.assistants.search(graph_id="half_failing")
    assert assistant["name"] == "Half a Graph"
    (unnamed,) = await sdk.assistants.search(graph_id="narrow")
    assert unnamed["name"] == "narrow"


async def test_an_assistant_shows_the_graph_that_its_configuration_makes(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create("made_to_measure", config={"configurable": {"node": "special"}})
    drawing = await sdk.assistants.get_graph(made["assistant_id"])
    assert [node["id"] for node in drawing["nodes"]] == ["__start__", "special", "__end__"]


async def test_a_send_without_an_input_is_refused(http: httpx.AsyncClient, thread_id: str) -> None:
    body = {"assistant_id": "letters", "command": {"goto": {"node": "b"}}}
    assert (await http.post(f"/threads/{thread_id}/runs/wait", json=body)).status_code == 422


async def test_a_subgraphs_states_name_the_task_they_belong_to(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str
) -> None:
    await wait(http, thread_id, "outer", input={})
    history = await sdk.threads.get_history(thread_id)
    task = next(task for state in history for task in state["tasks"] if task["name"] == "inner")
    namespace = f"inner:{task['id']}"
    body = {"checkpoint": {"checkpoint_ns": namespace}, "limit": 10}
    states = (await http.post(f"/threads/{thread_id}/history", json=body)).json()
    assert states
    for state in states:
        place = {key: value for key, value in state["metadata"].items() if key.startswith("langgraph_")}
        assert place["langgraph_node"] == "inner"
        assert place["langgraph_step"] == 2
        assert place["langgraph_triggers"] == ["branch:to:inner"]
        assert place["langgraph_checkpoint_ns"] == namespace
