"""Run the write and validate nodes as a graph on a scripted endpoint, and hold the page and scripts of their tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from tests.fixtures.openai_wire import WireRequest, WireServer, WireTurn
from tests.nodes.model_at import calling
from toolweave.errors import ScriptFailed
from toolweave.nodes.chat_models import ModelSource, ScriptModels
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.script.state import ScriptState
from toolweave.nodes.script.validate import validate_node
from toolweave.nodes.script.write import write_node

SENTENCE = "Bees fly far on a warm day and bring home what the flowers of the meadow give them. "


def page(*sections: tuple[str, str], language: str = "en", title: str = "Bees") -> ArticlePage:
    """Make a page of an article about bees, or of the given sections."""
    given = sections or (
        ("", "Bees are small. " + SENTENCE * 3),
        ("What they eat", SENTENCE * 4),
        ("Where they live", SENTENCE * 4),
    )
    return ArticlePage(
        url="https://example.org/bees",
        final_url="https://example.org/bees",
        title=title,
        site="example.org",
        language=language,
        text="\n\n".join(f"## {heading}\n\n{text}" if heading else text for heading, text in given),
    )


def script(sections: int = 3, **more: Any) -> dict[str, Any]:
    """Make a script that fits the page."""
    parts = [
        {"title": f"Part {number}", "narrations": [{"text": SENTENCE.strip()}, {"text": SENTENCE.strip()}]}
        for number in range(1, sections + 1)
    ]
    return {"title": "Bees", "description": "How bees live.", "sections": parts, **more}


def noting(*entries: tuple[str, str]) -> WireTurn:
    """Call take_notes with a note for each heading."""
    return calling({"sections": [{"heading": heading, "notes": [note]} for heading, note in entries]}, "take_notes")


def writing_graph(model: ModelSource | ScriptModels) -> CompiledStateGraph[Any, Any, Any]:
    """Draw write → validate."""
    graph = StateGraph(ScriptState)
    graph.add_node("write", write_node(model))
    graph.add_node("validate", validate_node(model))
    graph.add_edge(START, "write")
    graph.add_edge("write", "validate")
    graph.add_edge("validate", END)
    return graph.compile()


@dataclass
class Written:
    """What came of a script of answers: the state or the failure, the events, and the requests to the endpoint."""

    requests: list[WireRequest] = field(default_factory=list)
    state: dict[str, Any] | None = None
    failure: ScriptFailed | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def script(self) -> dict[str, Any]:
        assert self.state is not None, self.failure
        found: dict[str, Any] = self.state["script"]
        return found

    @property
    def error(self) -> str:
        assert self.failure is not None, "the script was expected to fail"
        return str(self.failure)

    def prompt(self, request: int = 0) -> str:
        """Give the user's message of a request, which shows the article."""
        return str(self.requests[request].messages[1]["content"])

    def system(self, request: int = 0) -> str:
        return str(self.requests[request].messages[0]["content"])

    def function(self, request: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.requests[request].body["tools"][0]["function"]
        return found


async def write_script(model: BaseChatModel, of: ArticlePage, settings: dict[str, Any] | None) -> Written:
    """Write and validate a script of a page."""
    written = Written()
    try:
        stream: Any = writing_graph(model).astream({"page": of, "settings": settings}, stream_mode=["values", "custom"])
        async for mode, value in stream:
            if mode == "values":
                written.state = value
            else:
                written.events.append(value)
    except ScriptFailed as failure:
        written.state, written.failure = None, failure
    return written


@dataclass
class Endpoint:
    """A scripted endpoint and a model there, for one test after the other."""

    server: WireServer
    model: BaseChatModel

    async def write(
        self,
        *turns: WireTurn,
        of: ArticlePage | None = None,
        settings: dict[str, Any] | None = None,
        repeat: bool = False,
    ) -> Written:
        """Write a script of a page while the endpoint gives the scripted answers."""
        self.server.turns[:] = turns
        self.server.repeat = repeat
        self.server.requests.clear()
        written = await write_script(self.model, of or page(), settings)
        written.requests = list(self.server.requests)
        return written


def framed(prompt: str) -> str:
    """Give what stands between the marks of the article."""
    assert prompt.count("<article>") == 1
    assert prompt.count("</article>") == 1
    return prompt.partition("<article>\n")[2].partition("\n</article>")[0]


def headings(prompts: Sequence[str]) -> list[str]:
    return [line[3:] for prompt in prompts for line in framed(prompt).splitlines() if line.startswith("## ")]
