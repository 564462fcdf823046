"""A long article is divided where it hurts least, and nothing of it is lost (A-04)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.script.writing import SENTENCE
from toolweave.nodes.script.page import (
    CONTINUED,
    MAX_HEADING_CHARS,
    Block,
    estimate_tokens,
    make_block,
    split_into_parts,
)

PIECES = st.sampled_from(
    [
        *("a", "Über", "word ", "End. ", "One! Two? ", "\n", "\n\n", " \n \n"),
        *("字", "終わり。", "「はい。」", "مرحبا؟ ", "🙂"),
        *("x" * 400, "字" * 300, " " * 50, "- item\n", "```\ncode\n```\n", "\ud800", "e\u0301", "."),
    ]
)
TEXTS = st.lists(PIECES, max_size=60).map("".join)
BLOCKS = st.lists(st.builds(Block, st.sampled_from(["", "Heading", "見出し", "h" * 300]), TEXTS), max_size=8)


@given(BLOCKS, st.integers(500, 700))
def test_every_part_has_room_and_joined_the_parts_are_the_article(blocks: list[Block], budget: int) -> None:
    parts = split_into_parts(blocks, budget)

    assert all(part and estimate_tokens(part) <= budget for part in parts)
    assert _joined([block for part in parts for block in part]) == _joined(blocks)
    assert parts == split_into_parts(blocks, budget)


@given(BLOCKS)
def test_parts_are_filled_as_far_as_whole_sections_go(blocks: list[Block]) -> None:
    parts = split_into_parts(blocks, 600)

    for part, following in pairwise(parts):
        assert estimate_tokens([*part, following[0]]) > 600


@pytest.mark.parametrize(("text", "tokens"), [("abcd" * 100, 100), ("字" * 100, 100), ("д" * 300, 200), ("🙂" * 3, 4)])
def test_other_scripts_than_latin_take_more_tokens(text: str, tokens: int) -> None:
    assert estimate_tokens([Block("", text)]) - estimate_tokens([Block("", "")]) == tokens


def test_sections_stay_whole_where_they_have_room() -> None:
    blocks = [Block(f"Heading {number}", "x" * 1_000) for number in range(6)]

    parts = split_into_parts(blocks, 600)

    assert [[block.heading for block in part] for part in parts] == [
        ["Heading 0", "Heading 1"],
        ["Heading 2", "Heading 3"],
        ["Heading 4", "Heading 5"],
    ]


def test_a_long_section_is_divided_between_paragraphs_and_its_heading_repeated() -> None:
    paragraph = SENTENCE * 10
    [first], [second], [third] = split_into_parts([Block("Bees", "\n\n".join([paragraph] * 6))], 500)

    assert [first.heading, second.heading, third.heading] == ["Bees", "Bees" + CONTINUED, "Bees" + CONTINUED]
    assert first.text == second.text == paragraph + "\n\n" + paragraph + "\n\n"


def test_a_long_paragraph_is_divided_between_sentences_in_any_script() -> None:
    for sentence in (SENTENCE, "蜂は花から花へ飛ぶ。", "「蜂は飛ぶ！」"):
        parts = split_into_parts([Block("", sentence * 200)], 500)

        assert len(parts) > 1
        assert all(block.text.endswith(sentence) for part in parts for block in part)


def test_the_continuation_of_a_section_without_a_heading_has_none() -> None:
    parts = split_into_parts([Block("", "word " * 2_000)], 500)

    assert {block.heading for part in parts for block in part} == {""}


def test_a_heading_that_is_too_long_is_whole_in_the_text() -> None:
    block = make_block("word " * 1_000, "Text.")

    assert len(block.heading) <= MAX_HEADING_CHARS + 1
    assert block.text == ("word " * 1_000).strip() + "\n\nText."


def _joined(blocks: list[Block]) -> list[tuple[str, str]]:
    """Put what was divided together again."""
    joined: list[tuple[str, str]] = []
    for heading, text in blocks:
        if joined and (heading.endswith(CONTINUED) or heading == "" == joined[-1][0]):
            joined[-1] = (joined[-1][0], joined[-1][1] + text)
        else:
            joined.append((heading, text))
    return joined
