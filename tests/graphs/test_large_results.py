"""A result too long for the model is cut with a notice; the model can read the whole in the store (T-12, D-7)."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.servers.connections.peers import QUICK, talkative
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import PlaneTools
from toolweave.nodes.large_results import forget_results, results_namespace
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

LIMIT = 1_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    async with open_tool_plane([talkative(prefix="", max_result_chars=LIMIT)], timing=QUICK) as opened:
        yield opened


class Chat:
    """A thread of the agent loop with a scripted model."""

    def __init__(self, plane: ToolPlane, store: BaseStore | None, *turns: Any, thread_id: str | None = "t.1") -> None:
        self.model = ScriptedModel(turns=[*turns, "done"])
        saver = InMemorySaver() if thread_id else None
        self._graph = build_agent_loop(tools=PlaneTools(plane), model=self.model, store=store, checkpointer=saver)
        self._config: Any = {"configurable": {"thread_id": thread_id}} if thread_id else None

    async def say(self, text: str = "go") -> list[BaseMessage]:
        result = await self._graph.ainvoke({"messages": [HumanMessage(text)]}, self._config)
        assert result["status"] == "done"
        return list(result["messages"])


def results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def long_text(lines: int, word: str = "plain") -> AIMessage:
    return calling(("long_text", {"lines": lines, "word": word}, "call-1"))


def whole(lines: int, word: str = "plain") -> str:
    return "\n".join(f"line {number}: {word}" for number in range(lines))


@pytest.mark.requirement("T-12")
async def test_what_was_cut_can_be_read_on_to_the_end(plane: ToolPlane) -> None:
    store = InMemoryStore()
    reads = [calling(("read_tool_result", {"id": "call-1", "offset": place, "limit": 900})) for place in (1_000, 1_900)]
    chat = Chat(plane, store, long_text(170), *reads)

    cut, *parts = results(await chat.say())

    text = whole(170)
    assert str(cut.content).startswith(text[:LIMIT])
    assert str(cut.content).endswith(
        f"[The answer was cut: 1000 of its {len(text)} characters are shown. To read on, the whole is stored: "
        "call read_tool_result with id 'call-1' and offset 1000, or with search.]"
    )
    assert cut.artifact == {"kept_result": {"characters": len(text)}}
    shown = [str(part.content).split("\n\n[Characters ") for part in parts]
    assert text == text[:LIMIT] + shown[0][0] + shown[1][0]
    assert shown[0][1] == f"1000 to 1900 of {len(text)}; go on at offset 1900.]"
    assert shown[1][1] == f"1900 to {len(text)} of {len(text)}; this is the end.]"


async def test_the_reading_tool_is_offered_once_there_is_something_to_read(plane: ToolPlane) -> None:
    chat = Chat(plane, InMemoryStore(), long_text(5), "short", long_text(200), "long")
    await chat.say()
    await chat.say()
    await chat.say("and later")
    offered = ["read_tool_result" in names for names in chat.model.offered]
    assert offered == [False, False, False, True, True]


async def test_a_stored_result_can_be_searched(plane: ToolPlane) -> None:
    search = calling(("read_tool_result", {"id": "call-1", "search": "LINE 150:"}))
    every = calling(("read_tool_result", {"id": "call-1", "search": "needle"}))
    nowhere = calling(("read_tool_result", {"id": "call-1", "search": "haystack"}))
    chat = Chat(plane, InMemoryStore(), long_text(400, "needle"), search, every, nowhere)

    _, found, many, none = (str(result.content) for result in results(await chat.say()))

    offset = whole(400, "needle").index("line 150:")
    assert f"[offset {offset}]" in found
    assert "line 150: needle" in found
    assert found.endswith("[That is all.]")
    assert len(re.findall(r"\[offset \d+\]", many)) == 10
    assert re.search(r"\[There are more: search from offset \d+\.\]$", many)
    assert none == "['haystack' is not in the result from offset 0 on.]"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"id": "call-9"}, "No result is stored under the id 'call-9'."),
        ({"id": "call-1", "offset": 10**9}, "offset 1000000000 is past its end.]"),
        ({"id": "call-1", "offset": -1}, "offset: Input should be greater than or equal to 0"),
        ({}, "id: Field required"),
    ],
)
async def test_a_wrong_call_of_the_reading_tool_gets_the_reason(
    plane: ToolPlane, arguments: dict[str, Any], text: str
) -> None:
    chat = Chat(plane, InMemoryStore(), long_text(200), calling(("read_tool_result", arguments)))
    assert text in str(results(await chat.say())[1].content)


async def test_one_thread_cannot_read_the_results_of_another(plane: ToolPlane) -> None:
    store = InMemoryStore()
    await Chat(plane, store, long_text(200), thread_id="t.1").say()
    other = Chat(plane, store, calling(("read_tool_result", {"id": "call-1"})), thread_id="t%2E1")
    assert "No result is stored" in str(results(await other.say())[0].content)


@pytest.mark.parametrize(("store", "thread_id"), [(None, "t"), (InMemoryStore(), None)], ids=["no store", "no thread"])
async def test_without_a_store_or_thread_the_notice_recommends_a_smaller_request(
    plane: ToolPlane, store: BaseStore | None, thread_id: str | None
) -> None:
    chat = Chat(plane, store, long_text(200), "ok", thread_id=thread_id)
    [cut] = results(await chat.say())
    assert "Ask for less at once, for example with a filter" in str(cut.content)
    assert cut.artifact is None
    assert store is None or await store.asearch(()) == []
    assert not any("read_tool_result" in names for names in chat.model.offered)


class BrokenStore(InMemoryStore):
    """A store of somebody else's, out of order."""

    async def abatch(self, ops: Any) -> Any:  # noqa: ARG002 - the signature of a store
        raise OSError("no space left")


async def test_a_store_that_fails_leaves_a_cut_result(plane: ToolPlane) -> None:
    chat = Chat(plane, BrokenStore(), long_text(200))
    [cut] = results(await chat.say())
    assert cut.status == "success"
    assert "Ask for less at once" in str(cut.content)


async def test_stored_results_are_forgotten_by_an_application_that_deletes_threads(plane: ToolPlane) -> None:
    store = InMemoryStore()
    for thread_id in ("a", "b"):
        await Chat(plane, store, long_text(200), thread_id=thread_id).say()
    for number in range(250):
        await store.aput(results_namespace("a"), f"call {number}", {"text": "x"})
    await store.aput(("threads", "a", "notes"), "mine", {"text": "the application's own"})

    await forget_results(store, "a")

    left = {(item.namespace, item.key) for item in await store.asearch((), limit=1_000)}
    assert left == {(("threads", "a", "notes"), "mine"), (("threads", "b", "tool_results"), "call-1")}


@pytest.mark.requirement("T-12")
async def test_an_error_of_a_tool_is_clean_and_short(plane: ToolPlane) -> None:
    wild = "\x1b[31mdisk full\x1b[0m\x00\u200b " + "é" * 50_000
    [result] = results(await Chat(plane, None, calling(("fail", {"text": wild}))).say())
    assert result.status == "error"
    assert str(result.content).startswith("disk full éé")
    assert len(str(result.content).encode()) <= 2_000


async def test_text_beside_media_is_cut_and_media_beyond_bounds_become_notices(plane: ToolPlane) -> None:
    small = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    texts = [{"type": "text", "text": word * 700} for word in "ab"]
    blocks = calling(("blocks", {"content": [texts[0], small, texts[1]]}), ("big_image", {"size": 9_000_000}))
    mixed, image = results(await Chat(plane, None, blocks).say())

    assert isinstance(mixed.content, list)
    assert [block["type"] for block in mixed.content if isinstance(block, dict)] == ["text", "image", "text", "text"]
    text = "".join(block.get("text", "") for block in mixed.content if isinstance(block, dict))
    assert text.startswith("a" * 700 + "b" * 299 + "\n[The answer was cut: 1000 of its 1401 characters are shown.")
    assert image.content == "[image, 6750000 bytes, too much to show]\nbeside it"


async def test_structured_content_beyond_the_limit_is_left_out_or_cut(plane: ToolPlane) -> None:
    calls = calling(
        ("big_structure", {"rows": 5}), ("big_structure", {"rows": 5_000}), ("only_structure", {"rows": 5_000})
    )
    small, large, only = results(await Chat(plane, InMemoryStore(), calls).say())
    assert small.artifact == {"structured_content": {"rows": [{"number": number} for number in range(5)]}}
    assert (large.content, large.artifact) == ("see the rows", None)
    assert str(only.content).startswith('{"rows": ["row", "row"')
    assert "read_tool_result" in str(only.content)


async def test_many_media_are_bounded_in_number(plane: ToolPlane) -> None:
    small = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    [result] = results(await Chat(plane, None, calling(("blocks", {"content": [small] * 100}))).say())
    images = [block for block in result.content if isinstance(block, dict) and block["type"] == "image"]
    assert len(images) == 20


async def test_outside_of_the_loop_a_tool_cuts_its_own_answer(plane: ToolPlane) -> None:
    tool = next(tool for tool in await plane.tools() if tool.name == "long_text")
    text = await tool.ainvoke({"lines": 500})
    assert text.startswith(whole(500)[:LIMIT] + "\n\n[The answer was cut: 1000 of its ")
