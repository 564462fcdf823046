"""A script that breaks the form or the settings is corrected once, or refused with the reasons (A-04)."""

from typing import Any

import pytest

from tests.fixtures.openai_wire import WireTurn
from tests.nodes.model_at import calling, saying
from tests.nodes.script.writing import SENTENCE, Endpoint, page, script

PERSONAS = [{"id": "host", "name": "Mika"}, {"id": "guest", "name": "Dr Ito"}]


def spoken(persona_id: Any) -> dict[str, Any]:
    """Let one say everything but the first narration, which the other one says."""
    written = script()
    for section in written["sections"]:
        for narration in section["narrations"]:
            narration["persona_id"] = "host"
    written["sections"][0]["narrations"][0]["persona_id"] = persona_id
    return written


def with_narrations(*texts: str) -> dict[str, Any]:
    return script() | {"sections": [{"title": "T", "narrations": [{"text": text} for text in texts]}] * 3}


WRONG: list[tuple[WireTurn, dict[str, Any], str]] = [
    (saying("Here is a script: bees are small."), {}, "neither a call of write_script nor a complete JSON object"),
    (calling('{"title": "Bees", "sections": ['), {}, "neither a call of write_script nor a complete JSON object"),
    (calling({}), {}, "title is required"),
    (calling(script(description=" ")), {}, "description must have 1 or more characters"),
    (calling(script() | {"sections": ["a"] * 3}), {}, "sections[0] must be an object"),
    (calling(with_narrations(SENTENCE, "")), {}, "sections[0].narrations[1].text must have 1 or more characters"),
    (calling(with_narrations("…", " – ")), {}, "sections[0] has no words to speak"),
    (calling(script(2)), {}, "at least 3 sections; there are 2"),
    (calling(script(9)), {}, "at most 8 sections; there are 9"),
    (calling(spoken("guests")), {"personas": PERSONAS}, "must be one of host, guest; there is no 'guests'"),
    (calling(spoken(None)), {"personas": PERSONAS}, "sections[0].narrations[0].persona_id is required"),
    (calling(spoken("host")), {}, "persona_id must be left out: there is one narrator"),
    (calling(with_narrations("Bees fly.")), {}, "too short"),
    (calling(with_narrations(SENTENCE * 10)), {"target_length_s": 30}, "too long: about 30 are wanted, at most 120"),
]


@pytest.mark.parametrize(("turn", "settings", "problem"), WRONG, ids=[problem[:40] for _, _, problem in WRONG])
async def test_a_problem_goes_to_the_model_once_and_then_into_the_error(
    endpoint: Endpoint, turn: WireTurn, settings: dict[str, Any], problem: str
) -> None:
    made = await endpoint.write(turn, turn, settings=settings)

    assert len(made.requests) == 2
    assert made.requests[1].messages[-1]["role"] == "user"
    assert problem in made.requests[1].messages[-1]["content"]
    assert "after two attempts" in made.error
    assert problem in made.error


async def test_the_repair_turn_shows_the_article_the_script_and_what_is_wrong(endpoint: Endpoint) -> None:
    first = script(9, title="Nine parts")

    made = await endpoint.write(calling(first), calling(script()))

    first_request, again = made.requests
    assert again.messages[:2] == first_request.messages
    assert [message["role"] for message in again.messages] == ["system", "user", "assistant", "user"]
    assert '"title": "Nine parts"' in again.messages[2]["content"]
    assert '"title": "Part 9"' in again.messages[2]["content"]
    assert again.tool_names == ["write_script"]
    assert made.script["title"] == "Bees"
    assert made.state is not None
    assert made.state["metadata"]["usage"]["calls"] == {"write": 2}
    assert made.state["metadata"]["usage"]["total_tokens"] == 240


async def test_a_cut_answer_is_shown_unchanged(endpoint: Endpoint) -> None:
    made = await endpoint.write(calling('{"title": "Half a sc'), calling(script()))

    assert made.requests[1].messages[2]["content"] == '{"title": "Half a sc'


async def test_problems_are_limited_in_number_and_length(endpoint: Endpoint) -> None:
    wrong = script()
    wrong["sections"] = [{"title": "T", "narrations": [{"text": SENTENCE, "x" * 500: 1}] * 30}] * 3

    made = await endpoint.write(calling(wrong), calling(wrong))

    repair = made.requests[1].messages[-1]["content"]
    assert repair.count("\n- ") == 10
    assert len(repair) < 10 * 310 + 300
    assert len(made.error) < 2_200


async def test_a_corrected_script_may_be_as_long_as_the_settings_allow(endpoint: Endpoint) -> None:
    made = await endpoint.write(calling(with_narrations(SENTENCE * 10)), settings={"target_length_s": 100})

    assert len(made.requests) == 1
    assert made.script["title"] == "Bees"


async def test_chinese_and_japanese_are_measured_by_their_characters(endpoint: Endpoint) -> None:
    text = "蜂は花から花へ飛び回り、蜜を集めて巣に持ち帰る。"
    article = page(("蜂", text * 8), ("巣", text * 8), language="ja", title="蜂")

    short = await endpoint.write(calling(with_narrations("蜂。")), calling(with_narrations("蜂。")), of=article)
    right = await endpoint.write(calling(with_narrations(text * 3)), of=article)

    assert "too short: about 64 are wanted, at least 16" in short.error
    assert right.script["sections"][0]["narrations"][0]["text"] == text * 3
