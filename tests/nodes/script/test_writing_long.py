"""A long article is read in parts: every section reaches a prompt, in order, and it ends (A-04)."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import Field, PrivateAttr

from tests.fixtures.openai_wire import WireTurn
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.scripted_model import calling as answering
from tests.nodes.model_at import calling, saying
from tests.nodes.script.writing import SENTENCE, Endpoint, framed, headings, noting, page, script, write_script
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.script.write import MAX_CONCURRENT_CALLS

SMALL = {"article_tokens": 500, "target_length_s": 60}


def long_page(sections: int = 9, length: int = 10) -> ArticlePage:
    """Make a page with numbered sections; 10 sentences are nearly half of what may be read at once."""
    return page(*((f"Heading {number}", f"Number {number}. " + SENTENCE * length) for number in range(1, sections + 1)))


class Reader(ScriptedModel):
    """A model that notes the headings it reads, and writes a script; it answers the later calls first.

    `length` is how many sentences each note has; notes of notes have none.
    """

    turns: list[Any] = Field(default_factory=list)
    length: int = 1
    brief_at_last: bool = True
    _reading: int = PrivateAttr(0)
    _most: int = PrivateAttr(0)

    @property
    def most_at_once(self) -> int:
        return self._most

    @property
    def shown(self) -> list[str]:
        return [str(prompt[1].content) for prompt in self.prompts]

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        self.prompts.append(list(messages))
        if kwargs["tools"][0]["function"]["name"] == "write_script":
            return answering(("write_script", script()))
        shown = str(messages[1].content)
        more = [] if self.brief_at_last and "- Note of" in shown else [SENTENCE * self.length]
        entries = [{"heading": heading, "notes": [f"Note of {heading}.", *more]} for heading in headings([shown])]
        return answering(("take_notes", {"sections": entries}))

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._reading += 1
        self._most = max(self._most, self._reading)
        for _ in range(20 - 2 * min(len(self.prompts), 9)):
            await asyncio.sleep(0)
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk
        self._reading -= 1


async def test_every_section_of_a_long_article_reaches_a_prompt_once_and_in_order() -> None:
    model = Reader()

    made = await write_script(model, long_page(), SMALL)

    parts = sorted(model.shown[:-1], key=lambda shown: int(re.findall(r"part (\d+) of 5", shown)[0]))
    assert headings(parts) == [f"Heading {number}" for number in range(1, 10)]
    assert [framed(part).count(SENTENCE.strip()) for part in parts] == [20, 20, 20, 20, 10]
    last = framed(model.shown[-1])
    assert re.findall(r"- Note of Heading (\d)\.", last) == list("123456789")
    assert headings([model.shown[-1]]) == [f"Heading {number}" for number in range(1, 10)]
    assert "you see notes of it" in str(model.prompts[-1][0].content)
    assert made.script["title"] == "Bees"
    assert made.state is not None
    assert made.state["notes"] is None


async def test_a_section_that_is_longer_than_a_part_is_read_to_its_end() -> None:
    sentences = [f"Fact number {number} is written here for each reader of the whole text. " for number in range(300)]
    model = Reader()

    await write_script(model, page(("Facts", "".join(sentences))), SMALL)

    shown = " ".join(framed(prompt) for prompt in model.shown[:-1])
    assert sorted(map(int, re.findall(r"Fact number (\d+) is written", shown))) == list(range(300))


async def test_a_few_parts_are_read_at_once_and_their_notes_stay_in_order() -> None:
    first, second = Reader(), Reader()

    await write_script(first, long_page(40), SMALL | {"article_tokens": 1_000})
    await write_script(second, long_page(40), SMALL | {"article_tokens": 1_000})

    assert 1 < first.most_at_once <= MAX_CONCURRENT_CALLS
    assert first.shown[-1] == second.shown[-1]


async def test_notes_that_are_too_long_are_condensed_again() -> None:
    model = Reader(length=5)

    made = await write_script(model, long_page(30), SMALL)

    rounds_of_parts = [re.findall(r"of (\d+) of this article", shown) for shown in model.shown[:-1]]
    rounds = list(dict.fromkeys(int(found[0]) for found in rounds_of_parts))
    assert len(rounds) > 1
    assert rounds == sorted(rounds, reverse=True)
    assert re.findall(r"- Note of Heading (\d+)\.", framed(model.shown[-1])) == [str(n) for n in range(1, 31)]
    percents = [event["progress"] for event in made.events]
    assert percents == sorted(percents)
    assert any("parts of its notes" in event["message"] for event in made.events)


async def test_notes_that_do_not_become_shorter_end_the_script() -> None:
    model = Reader(length=10, brief_at_last=False)

    made = await write_script(model, long_page(), SMALL)

    assert "the model's notes of it are not short enough" in made.error
    assert len(model.prompts) == 5


async def test_an_article_of_too_many_parts_is_refused_before_a_model_reads_it() -> None:
    model = Reader()

    made = await write_script(model, long_page(1_000, 20), SMALL)

    assert "1000 parts of 500 (article_tokens); at most 300 parts are read" in made.error
    assert model.prompts == []


async def test_a_repair_of_a_script_from_notes_shows_the_notes_again(endpoint: Endpoint) -> None:
    first, second = noting(("Heading 1", "One thing.")), noting(("Heading 3", "Another."))

    made = await endpoint.write(first, second, calling({}), calling(script()), of=long_page(3), settings=SMALL)

    assert made.script["title"] == "Bees"
    # The parts are requested side by side: either may have got the first answer.
    noted = ["## Heading 1\n\n- One thing.", "## Heading 3\n\n- Another."]
    assert framed(made.prompt(3)) in ["\n\n".join(["# Bees", *order]) for order in (noted, noted[::-1])]
    assert made.prompt(2) == made.prompt(3)
    assert made.system(2) == made.system(3)
    assert made.state is not None
    assert made.state["metadata"]["usage"]["calls"] == {"notes": 2, "write": 2}
    assert made.function(0)["name"] == "take_notes"


@pytest.mark.parametrize(
    "turn",
    [
        calling({"notes": {"sections": [{"heading": "Heading", "notes": "A fact."}]}}, "take_notes"),
        calling({"sections": '[{"notes": ["A fact.", {"more": 1}]}]'}, "take_notes"),
        saying('```json\n{"sections": [{"heading": "Heading", "notes": ["A fact."]}]}\n```'),
        saying("<think>Well.</think>## Heading\n\n- A fact."),
    ],
    ids=range(4),
)
async def test_notes_are_read_in_any_form_of_answer(endpoint: Endpoint, turn: WireTurn) -> None:
    made = await endpoint.write(turn, turn, calling(script()), of=long_page(3), settings=SMALL)

    assert framed(made.prompt(2)).count("A fact.") == 2
    assert "Well." not in made.prompt(2)


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (calling({"sections": []}, "take_notes"), "The model took no notes"),
        (WireTurn(status=500), "status 500"),
        (WireTurn(text="{", finish_reason="length"), "article_tokens"),
    ],
    ids=range(3),
)
async def test_a_part_without_notes_ends_the_script(endpoint: Endpoint, turn: WireTurn, reason: str) -> None:
    given = page(("", "\n\n".join([SENTENCE * 12] * 2)))
    made = await endpoint.write(turn, of=given, settings={"article_tokens": 500}, repeat=True)

    assert reason in made.error
    assert "write_script" not in [name for request in made.requests for name in request.tool_names]


async def test_the_usage_before_a_part_failed_is_counted(endpoint: Endpoint) -> None:
    made = await endpoint.write(
        noting(("Heading 1", "A fact.")), calling({"sections": []}, "take_notes"), of=long_page(3), settings=SMALL
    )

    assert made.failure is not None
    assert 1 <= len(made.failure.model_usage) <= 2
    assert {used["stage"] for used in made.failure.model_usage} == {"notes"}
