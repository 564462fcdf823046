"""OpenAI's clients use chat graphs as models: the real `openai` package against the served application (S-09)."""

import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
import pytest_asyncio
from langgraph_sdk import get_sync_client
from openai import AsyncOpenAI

from tests.api.routes.conftest import serve_ours, wait_for_health
from tests.api.routes.human import with_a_person
from tests.fixtures.app_server import AppProcess, AppServer, serve_in_thread
from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn, openai_wire

pytestmark = pytest.mark.requirement("S-09")

MODEL = "agent_loop"
HELLO: Any = [{"role": "user", "content": "Hello"}]
APP = Path(__file__).parents[2] / "clients" / "app"
TALK = {"talk": f"{APP / 'client_graphs.py'}:talk"}
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK_WEATHER = WireTurn(calls=(WireCall("get_weather", '{"city": "Oslo"}', id="call_oslo"),))
LIST_TODOS = WireCall("list_todos", "{}", id="call_list")
ADD_TODO = WireTurn(calls=(WireCall("create_todo", '{"title": "Buy milk"}', id="call_milk"),))


class Served:
    """The served application, and the model endpoint behind it."""

    def __init__(self, process: AppProcess, wire: WireServer) -> None:
        self.url = process.url
        self.wire = wire

    def answer_with(self, *turns: WireTurn) -> None:
        """Set what the model answers from now on."""
        self.wire.turns[:] = turns
        self.wire.requests.clear()
        self.wire.left.clear()

    def thread_count(self) -> int:
        """Return the number of stored threads."""
        with get_sync_client(url=self.url, api_key=None) as client:
            return client.threads.count()

    def messages(self, thread_id: str) -> list[tuple[str, Any]]:
        """Return type and content of a thread's messages."""
        with get_sync_client(url=self.url, api_key=None) as client:
            values: Any = client.threads.get_state(thread_id)["values"]
        return [(message["type"], message["content"]) for message in values["messages"]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openai")
    with openai_wire([WireTurn("Hello")]) as wire:
        env = {**with_a_person(folder, asking=False), "OPENAI_BASE_URL": wire.base_url, "TOOLWEAVE_MODEL": "scripted"}
        with serve_ours(folder / "data", env) as process:
            wait_for_health(process, "ok")
            yield Served(process, wire)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(served: Served) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", timeout=60) as opened:
        yield opened


@pytest.mark.requirement("S-04")
def test_the_application_starts_without_the_types_of_openai_and_ag_ui() -> None:
    code = "import sys, toolweave.api.app; print([name for name in ('openai', 'ag_ui') if name in sys.modules])"
    done = subprocess.run(
        [REAL_PYTHON, "-W", "ignore::EncodingWarning", "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_chat_graphs_are_models_and_others_are_not(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["agent_loop", "todo_agent"]
    model = await client.models.retrieve(MODEL)
    assert (model.id, model.object, model.owned_by) == (MODEL, "model", "toolweave")
    for unknown in ("workflow", "nobody", str(uuid4())):
        with pytest.raises(openai.NotFoundError, match="There is no assistant") as refused:
            await client.models.retrieve(unknown)
        assert (refused.value.code, refused.value.type) == ("model_not_found", "invalid_request_error")
    with pytest.raises(openai.NotFoundError) as refused:
        await client.embeddings.create(model=MODEL, input="Hello")
    assert refused.value.code is None


async def test_an_assistant_with_a_configuration_is_a_model_by_its_id(served: Served, client: AsyncOpenAI) -> None:
    with get_sync_client(url=served.url, api_key=None) as sdk:
        made = sdk.assistants.create("agent_loop", name="Mine")["assistant_id"]
        served.answer_with(WireTurn("Hello"))
        completion = await client.chat.completions.create(model=made, messages=HELLO)
        assert (completion.model, completion.choices[0].message.content) == (made, "Hello")
        assert made in [model.id async for model in client.models.list()]
        sdk.assistants.delete(made)


async def test_a_completion_runs_the_graph_on_the_sent_messages_and_stores_nothing(
    served: Served, client: AsyncOpenAI
) -> None:
    served.answer_with(WireTurn("Oslo, of course"))
    before = served.thread_count()
    talk: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "A city?"},
        {"role": "assistant", "content": "Rome"},
        {"role": "user", "content": [{"type": "text", "text": "Another?"}]},
    ]
    raw = await client.chat.completions.with_raw_response.create(
        model=MODEL, messages=talk, temperature=0.1, max_tokens=5, user="ann"
    )
    completion = raw.parse()
    [choice] = completion.choices
    assert (choice.message.content, choice.finish_reason, completion.object) == (
        "Oslo, of course",
        "stop",
        "chat.completion",
    )
    assert set(raw.headers["x-ignored-fields"].split(", ")) == {"temperature", "max_tokens", "user"}
    sent = [(message["role"], message["content"]) for message in served.wire.requests[0].messages]
    assert sent[-4:] == [(message["role"], message["content"]) for message in talk]
    assert served.thread_count() == before


async def test_a_stream_has_the_text_in_pieces_and_the_usage_on_request(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn("Oslo, of course", usage=USAGE))
    stream = await client.chat.completions.create(
        model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    *told, usage = chunks
    assert [chunk.choices[0].delta.content for chunk in told] == ["", "Oslo,", " of c", "ourse", None]
    assert [chunk.choices[0].finish_reason for chunk in told] == [None, None, None, None, "stop"]
    assert usage.choices == []
    assert usage.usage is not None
    assert usage.usage.total_tokens == USAGE["total_tokens"]
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_call_of_a_clients_tool_ends_the_run_and_its_result_continues(
    served: Served, client: AsyncOpenAI, streaming: bool
) -> None:
    served.answer_with(ASK_WEATHER, WireTurn("It rains in Oslo"))
    asked: Any = [{"role": "user", "content": "How is the weather in Oslo?"}]
    if streaming:
        async with client.chat.completions.stream(model=MODEL, messages=asked, tools=[WEATHER]) as stream:
            completion: Any = await stream.get_final_completion()
    else:
        completion = await client.chat.completions.create(model=MODEL, messages=asked, tools=[WEATHER])
    [choice] = completion.choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, call.id, call.function.name) == ("tool_calls", "call_oslo", "get_weather")
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    assert {"get_weather", "list_todos"} <= set(served.wire.requests[0].tool_names)

    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    talk: Any = [*asked, choice.message.model_dump(exclude_unset=True), result]
    answered = await client.chat.completions.create(model=MODEL, messages=talk, tools=[WEATHER])
    assert (answered.choices[0].message.content, answered.choices[0].finish_reason) == ("It rains in Oslo", "stop")
    assert [message["content"] for message in served.wire.requests[1].messages if message["role"] == "tool"] == ["rain"]


@pytest.mark.parametrize(
    ("arguments", "sent"), [("", "{}"), ("{}", "{}"), ('{"city": ', "{}"), ('{"city": "Oslo"}', '{"city": "Oslo"}')]
)
async def test_a_past_call_without_content_or_with_any_arguments_continues(
    served: Served, client: AsyncOpenAI, arguments: str, sent: str
) -> None:
    served.answer_with(ASK_WEATHER, WireTurn("It rains in Oslo"))
    first = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER])
    message: Any = first.choices[0].message.model_dump(exclude_none=True)
    assert "content" not in message
    message["tool_calls"][0]["function"]["arguments"] = arguments
    message["tool_calls"].append({**message["tool_calls"][0], "id": "call_rome"})
    message["tool_calls"][1]["function"] = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    results: list[Any] = [
        {"role": "tool", "tool_call_id": each, "content": "rain"} for each in ("call_oslo", "call_rome")
    ]
    answered = await client.chat.completions.create(model=MODEL, messages=[*HELLO, message, *results], tools=[WEATHER])
    assert answered.choices[0].message.content == "It rains in Oslo"
    [called] = [each for each in served.wire.requests[1].messages if each.get("tool_calls")]
    assert {call["id"]: call["function"]["arguments"] for call in called["tool_calls"]} == {
        "call_oslo": sent,
        "call_rome": '{"city": "Rome"}',
    }


async def test_texts_refusals_and_images_reach_the_model(served: Served, client: AsyncOpenAI) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/1.png", "detail": "low"}}
    content: Any = [{"type": "text", "text": "What is this?"}, image]
    refusal: Any = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    served.answer_with(WireTurn("A cat"))
    await client.chat.completions.create(model=MODEL, messages=[*HELLO, refusal, {"role": "user", "content": content}])
    *_, refused, seen = served.wire.requests[0].messages
    assert (refused["content"], seen["content"]) == ([{"type": "text", "text": "No."}], content)


async def test_the_servers_tools_run_before_a_clients_call_ends_the_run(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn(calls=(LIST_TODOS, *ASK_WEATHER.calls)), WireTurn("Rain, and no todos"))
    thread = {"thread_id": str(uuid4())}
    first = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER], metadata=thread)
    assert [call.id for call in first.choices[0].message.tool_calls or ()] == ["call_oslo"]
    assert len(served.wire.requests) == 1
    result: Any = [{"role": "tool", "tool_call_id": "call_oslo", "content": "rain"}]
    second = await client.chat.completions.create(model=MODEL, messages=result, tools=[WEATHER], metadata=thread)
    assert second.choices[0].message.content == "Rain, and no todos"
    results = {each["tool_call_id"]: each for each in served.wire.requests[1].messages if each["role"] == "tool"}
    assert results.keys() == {"call_list", "call_oslo"}


async def test_a_graph_without_client_tools_refuses_them(tmp_path: Path) -> None:
    with serving(tmp_path, TALK) as server:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=60) as client:
            completion = await client.chat.completions.create(model="talk", messages=HELLO)
            assert completion.choices[0].message.content == "you said: Hello"
            with pytest.raises(openai.BadRequestError, match="takes no tools of a client"):
                await client.chat.completions.create(model="talk", messages=HELLO, tools=[WEATHER])
            await client.chat.completions.create(model="talk", messages=HELLO, tools=[WEATHER], tool_choice="none")


COUNTED = """
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState, StateGraph


class Counted:
    schemas = 0

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        Counted.schemas += 1
        return handler(int)


class State(MessagesState):
    counted: Counted


def count(state: State) -> Any:
    return {"messages": [AIMessage(str(Counted.schemas))]}


graph = StateGraph(State).add_node("count", count).add_edge("__start__", "count").compile()
"""


async def test_the_schemas_of_a_graph_are_made_once(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(COUNTED, encoding="utf-8")
    with serving(tmp_path, {"counted": "./counted.py:graph"}) as server:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=60) as client:
            counts = [
                (await client.chat.completions.create(model="counted", messages=HELLO)).choices[0].message.content
                for _ in range(3)
            ]
    assert int(counts[0] or 0) > 0
    assert len(set(counts)) == 1


@contextmanager
def serving(folder: Path, graphs: dict[str, str], **more: Any) -> Iterator[AppServer]:
    """Serve graphs beside our routes, without MCP servers."""
    (folder / "mcp.jsonc").write_text('{"mcpServers": {}}', encoding="utf-8")
    served = {"dependencies": [str(APP)], "graphs": graphs, "http": {"app": "toolweave.api.app:app"}, **more}
    (folder / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    env = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(folder / "mcp.jsonc")}
    with serve_in_thread(folder / "langgraph.json", folder / "data", env) as server:
        yield server


async def test_a_thread_gets_only_the_messages_that_it_does_not_have(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn("Hello, Ann"), WireTurn("Ann"))
    thread_id = str(uuid4())
    first: Any = {"role": "user", "content": "I am Ann"}
    answer = await client.chat.completions.create(model=MODEL, messages=[first], metadata={"thread_id": thread_id})
    whole: Any = [first, answer.choices[0].message.model_dump(exclude_unset=True), {"role": "user", "content": "Who?"}]
    await client.chat.completions.create(model=MODEL, messages=whole, metadata={"thread_id": thread_id})
    assert served.messages(thread_id) == [("human", "I am Ann"), ("ai", "Hello, Ann"), ("human", "Who?"), ("ai", "Ann")]


@pytest.mark.requirement("S-07")
async def test_an_approval_is_a_tool_call_that_the_client_answers(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(ADD_TODO, WireTurn("Added"))
    thread = {"thread_id": str(uuid4())}
    asked = await client.chat.completions.create(model=MODEL, messages=HELLO, metadata=thread)
    [call] = asked.choices[0].message.tool_calls or []
    assert asked.choices[0].finish_reason == "tool_calls"
    assert call.type == "function"
    assert call.function.name == "answer_interrupt"
    [request] = json.loads(call.function.arguments)["interrupt"]
    assert request["action_request"] == {"action": "create_todo", "args": {"title": "Buy milk"}}
    answer: Any = {"role": "tool", "tool_call_id": call.id, "content": '[{"type": "accept"}]'}
    done = await client.chat.completions.create(model=MODEL, messages=[answer], metadata=thread)
    assert done.choices[0].message.content == "Added"
    assert "Buy milk" in str(served.messages(thread["thread_id"])[2])


async def test_without_a_thread_a_call_that_needs_approval_is_refused_to_the_model(
    served: Served, client: AsyncOpenAI
) -> None:
    served.answer_with(ADD_TODO, WireTurn("I may not"))
    done = await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert done.choices[0].message.content == "I may not"
    assert "nobody can be asked" in str(served.wire.requests[1].messages)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "no role"}]}, "messages cannot be read"),
        ({"messages": [{"role": "sender", "content": "Hello"}]}, "messages cannot be read"),
        ({"messages": [{"role": "tool", "content": "no tool_call_id"}]}, "messages cannot be read"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages cannot be read"),
        ({"messages": [{"role": "user", "content": 5}]}, "not supported"),
        *[
            ({"messages": [{"role": "user", "content": [part]}]}, "Content parts of type .* not supported")
            for part in (
                {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
                {"type": "file", "file": {"file_id": "1"}},
                {"type": "weird"},
                {"type": "text", "text": 5},
                {"type": "image_url", "image_url": {}},
                {"type": ["text"]},
                {},
                "text",
            )
        ],
        ({"messages": [{"role": "assistant", "content": "Hi"}], "metadata": {"thread_id": str(uuid4())}}, "no new"),
        ({"metadata": {"a": 5}}, "metadata.a"),
        ({"n": 2}, "n: "),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"metadata": {"thread_id": "one"}}, "must be a UUID"),
        ({"messages": [{"role": "tool", "tool_call_id": "interrupt_1", "content": "yes"}]}, "need a thread"),
    ],
)
async def test_an_invalid_request_is_refused_in_openais_form(
    client: AsyncOpenAI, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=text) as refused:
        await client.chat.completions.create(**{"model": MODEL, "messages": HELLO, **fields})
    assert refused.value.type == "invalid_request_error"
    assert not re.search("pydantic|For further information|COERCION", refused.value.message)


async def test_a_body_over_the_limit_is_refused_in_openais_form(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.APIStatusError, match="200,000 values") as refused:
        await client.chat.completions.create(model=MODEL, messages=HELLO, extra_body={"more": [0] * 200_000})
    assert refused.value.status_code == 413


async def test_a_model_failure_is_an_error_that_the_client_does_not_repeat(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn(status=401))
    with pytest.raises(openai.InternalServerError, match="rejected the API key") as failed:
        await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert (failed.value.status_code, failed.value.type) == (502, "server_error")
    assert len(served.wire.requests) == 1


async def test_a_failure_in_the_middle_of_a_stream_is_an_error(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn("Hello to you", finish_reason="none"))
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    text = "".join([(await anext(stream)).choices[0].delta.content or "" for _ in range(4)])
    assert text == "Hello to you"
    with pytest.raises(openai.APIError, match="before it was complete"):
        await anext(stream)


async def test_a_cut_answer_has_its_finish_reason(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(*[WireTurn("Once upon", finish_reason="length")] * 2)
    completion = await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert (completion.choices[0].message.content, completion.choices[0].finish_reason) == ("Once upon", "length")
    response = await client.responses.create(model=MODEL, input="Hello", store=False)
    assert (response.status, response.incomplete_details and response.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_that_disconnects_cancels_its_run(served: Served, client: AsyncOpenAI, streaming: bool) -> None:
    served.answer_with(WireTurn("Hello to you", silent_after=2))
    thread_id = str(uuid4())
    if streaming:
        stream = await client.chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, metadata={"thread_id": thread_id}
        )
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
    else:
        with pytest.raises(openai.APITimeoutError):
            await client.with_options(timeout=1, max_retries=0).chat.completions.create(
                model=MODEL, messages=HELLO, metadata={"thread_id": thread_id}
            )
    with get_sync_client(url=served.url, api_key=None) as sdk:
        [run] = sdk.runs.list(thread_id)
        sdk.runs.join(thread_id, run["run_id"])
        assert sdk.runs.get(thread_id, run["run_id"])["status"] == "interrupted"


async def test_responses_continue_by_the_id_of_the_last_one(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn("Hello, Ann"), WireTurn("Ann"))
    first = await client.responses.create(model=MODEL, input="I am Ann", instructions="Be brief.")
    second = await client.responses.create(model=MODEL, input="Who?", previous_response_id=first.id)
    assert (first.output_text, second.output_text) == ("Hello, Ann", "Ann")
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    sent = [message["content"] for message in served.wire.requests[1].messages][-4:]
    assert sent == ["Be brief.", "I am Ann", "Hello, Ann", "Who?"]
    with pytest.raises(openai.BadRequestError, match="Only the last response"):
        await client.responses.create(model=MODEL, input="Who?", previous_response_id=first.id)
    for unknown in ("resp_1", f"resp_{uuid4().hex}{uuid4().hex}"):
        with pytest.raises(openai.BadRequestError, match="no response with this"):
            await client.responses.create(model=MODEL, input="Who?", previous_response_id=unknown)


async def test_a_streamed_response_has_all_events_of_a_message(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn("Oslo, of course"))
    async with client.responses.stream(model=MODEL, input="A city?", store=False) as stream:
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
    assert kinds == [
        *("response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"),
        *["response.output_text.delta"] * 3,
        *("response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"),
    ]
    assert response.output_text == "Oslo, of course"


async def test_a_failed_response_ends_its_stream_with_the_reason(served: Served, client: AsyncOpenAI) -> None:
    served.answer_with(WireTurn("Hello to you", finish_reason="none"))
    stream = await client.responses.create(model=MODEL, input="Hello", stream=True)
    last: Any = [event async for event in stream][-1]
    assert (last.type, last.response.status) == ("response.failed", "failed")
    assert "before it was complete" in last.response.error.message


@pytest.mark.parametrize("stored", [False, True])
async def test_a_response_calls_a_clients_function_and_continues_with_its_output(
    served: Served, client: AsyncOpenAI, stored: bool
) -> None:
    served.answer_with(ASK_WEATHER, WireTurn("It rains in Oslo"))
    tools: Any = [{"type": "function", "strict": False, **WEATHER["function"]}]
    asked: Any = [{"role": "user", "content": [{"type": "input_text", "text": "The weather in Oslo?"}]}]
    async with client.responses.stream(model=MODEL, input=asked, tools=tools, store=stored) as stream:
        response = await stream.get_final_response()
    [call] = response.output
    assert call.type == "function_call"
    assert (call.call_id, call.name, json.loads(call.arguments)) == ("call_oslo", "get_weather", {"city": "Oslo"})
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    continued: Any = {"input": [output], "previous_response_id": response.id}
    if not stored:
        continued = {"input": [*asked, call.model_dump(exclude_unset=True), output], "store": False}
    answered = await client.responses.create(model=MODEL, tools=tools, **continued)
    assert answered.output_text == "It rains in Oslo"
    assert [message["content"] for message in served.wire.requests[1].messages if message["role"] == "tool"] == ["rain"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"input": []}, "input"),
        ({"input": [{"type": "reasoning", "id": "1", "summary": []}]}, "no new message"),
        ({"metadata": {"a": 5}}, "metadata.a"),
        ({"input": [{"type": "computer_call"}]}, "not supported"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "1"}]}]}, "not supported"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
    ],
)
async def test_what_a_response_cannot_do_is_refused(client: AsyncOpenAI, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(openai.BadRequestError, match=text):
        await client.responses.create(**{"model": MODEL, "input": "Hello", **fields})


AUTH = """
from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization != "Bearer ann":
        raise Auth.exceptions.HTTPException(401, "No valid key.")
    return {"identity": "ann"}
"""


async def test_callers_need_the_keys_of_the_api(tmp_path: Path) -> None:
    (tmp_path / "keys.py").write_text(AUTH, encoding="utf-8")
    with serving(tmp_path, TALK, auth={"path": "./keys.py:auth"}) as server:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="ann", timeout=60) as ann:
            completion = await ann.chat.completions.create(model="talk", messages=HELLO)
            assert completion.choices[0].message.content == "you said: Hello"
            stranger = ann.with_options(api_key="mallory")
            for request in (
                stranger.models.list(),
                stranger.chat.completions.create(model="talk", messages=HELLO),
                stranger.responses.create(model="talk", input="Hello"),
            ):
                with pytest.raises(openai.AuthenticationError) as refused:
                    await request
                assert refused.value.code == "invalid_api_key"
