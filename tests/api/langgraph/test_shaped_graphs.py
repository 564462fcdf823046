"""What a graph declares holds over the API, too: its output, its context, its name, its factory's configuration."""

from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import Thread

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"


async def test_a_run_gives_and_streams_the_output_schema_and_its_thread_keeps_all(
    sdk: LangGraphClient, thread: Thread
) -> None:
    assert await thread.wait("narrow", input={"question": "why"}) == {"answer": "why, hm!"}
    whole = {"question": "why", "draft": "why, hm", "answer": "why, hm!"}
    assert (await thread.show())["values"] == whole
    assert (await thread.state())["values"] == whole
    stream = sdk.runs.stream(None, "narrow", input={"question": "why"}, stream_mode=["values", "updates"])
    parts = [(part.event, part.data) async for part in stream]
    assert parts[1:] == [
        ("updates", {"draft": None}),
        ("updates", {"answer": {"answer": "why, hm!"}}),
        ("values", {"answer": "why, hm!"}),
    ]


async def test_a_run_that_stops_before_any_output_gives_its_state(thread: Thread) -> None:
    stopped = await thread.wait("narrow", input={"question": "why"}, interrupt_after=["draft"])
    assert stopped == {"question": "why", "draft": "why, hm"}
    assert (await thread.show())["status"] == "interrupted"
    assert await thread.wait("narrow", input=None) == {"answer": "why, hm!"}


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
    thread: Thread, graph_id: str, fields: dict[str, Any], shown: str
) -> None:
    assert (await thread.wait(graph_id, input={}, **fields))["shown"] == shown


async def test_a_function_interrupted_before_any_output_shows_its_interrupt(thread: Thread) -> None:
    interrupted = await thread.wait("asking_function", input="tea")
    assert [question["value"] for question in interrupted["__interrupt__"]] == [{"about": "tea"}]
    (run,) = await thread.runs()
    joined = (await thread.get(f"/runs/{run['run_id']}/join")).json()
    assert joined == interrupted
    answered = await thread.wait("asking_function", command={"resume": "green"})
    assert answered == {"topic": "tea", "answer": "green"}


async def test_a_question_beside_a_failing_node_stays_on_the_thread(thread: Thread) -> None:
    answer = await thread.wait("half_failing", input={}, config={"max_concurrency": 1})
    assert answer["__error__"]["message"] == "this half fails"
    shown = await thread.show()
    assert shown["status"] == "error"
    assert [each["value"] for interrupts in shown["interrupts"].values() for each in interrupts] == ["still there?"]


async def test_an_assistant_has_the_compiled_name_of_its_graph(sdk: LangGraphClient) -> None:
    (assistant,) = await sdk.assistants.search(graph_id="half_failing")
    assert assistant["name"] == "Half a Graph"
    (unnamed,) = await sdk.assistants.search(graph_id="narrow")
    assert unnamed["name"] == "narrow"


async def test_an_assistant_shows_the_graph_that_its_configuration_makes(sdk: LangGraphClient) -> None:
    made = await sdk.assistants.create("made_to_measure", config={"configurable": {"node": "special"}})
    drawing = await sdk.assistants.get_graph(made["assistant_id"])
    assert [node["id"] for node in drawing["nodes"]] == ["__start__", "special", "__end__"]


async def test_a_send_without_an_input_is_refused(thread: Thread) -> None:
    body = {"assistant_id": "letters", "command": {"goto": {"node": "b"}}}
    assert (await thread.post("/runs/wait", json=body)).status_code == 422


async def test_a_subgraphs_states_name_the_task_they_belong_to(thread: Thread) -> None:
    await thread.wait("outer", input={})
    history = await thread.history()
    task = next(task for state in history for task in state["tasks"] if task["name"] == "inner")
    namespace = f"inner:{task['id']}"
    body = {"checkpoint": {"checkpoint_ns": namespace}, "limit": 10}
    states = (await thread.post("/history", json=body)).json()
    assert states
    for state in states:
        place = {key: value for key, value in state["metadata"].items() if key.startswith("langgraph_")}
        assert place["langgraph_node"] == "inner"
        assert place["langgraph_step"] == 2
        assert place["langgraph_triggers"] == ["branch:to:inner"]
        assert place["langgraph_checkpoint_ns"] == namespace
