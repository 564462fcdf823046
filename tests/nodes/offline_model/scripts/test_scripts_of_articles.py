"""Articles of every shape get a script that passes at the first try: tiny, huge, without headings."""

from functools import partial

import pytest

from tests.fixtures.counting import calls_in
from tests.nodes.offline_model.scripts.asking import in_order, written_of
from tests.nodes.script.writing import page
from toolweave.errors import ScriptFailed
from toolweave.nodes.offline_model.model import split_article
from toolweave.nodes.script.page import ArticlePage
from toolweave.nodes.spoken_length import spoken_seconds

WORD_LIST = "harbor school bell river tide council winter bridge stone paper market lamp garden wall"
WORDS = WORD_LIST.split()
CHINESE = "海港的学校在星期一开学了。孩子们走过一条窄窄的木桥，手里拉着绳子。老师说，这里的教室会随着潮水升降。"
RUSSIAN = "Каждая старая лестница говорит на своём языке. Плотник Егор Лапин понимает их все. Зимой доски сохнут. "


def sentences(count: int, start: int = 0) -> list[str]:
    """Make sentences of which no two are alike."""
    return [
        f"The {WORDS[number % 14]} of number {number} was {WORDS[number * 5 % 14]} before the {WORDS[number * 3 % 13]}."
        for number in range(start, start + count)
    ]


def long_page(parts: int, each: int) -> ArticlePage:
    return page(*[(f"Heading {part}", " ".join(sentences(each, part * each))) for part in range(parts)])


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("Bees are small, but they fly far and bring home what the meadows give them.", 1),
        ("Bees are small. They fly far on a warm day, and they bring home what the meadows give.", 2),
        ("Bees are small, and they fly very far on warm days.\n\n![A bee](A bee on a flower of the meadow)", 2),
        ("| Bee | Honey |\n|---|---|\n" + "\n".join(f"| {word} | {word} jars |" for word in WORDS), 3),
        ("```\n" + "\n".join(f"{word} = honey({word})" for word in WORDS) + "\n```", 3),
        ("[" * 3_000 + "`" * 3_000 + "*" * 3_000 + " Bees are small. They fly far on a warm day.", 2),
        ("a" * 5_000 + " Bees are small. They fly far on a warm day and bring home honey.", 2),
    ],
)  # fmt: skip
async def test_an_article_of_any_shape_gets_a_script_at_the_first_try(text: str, sections: int) -> None:
    written = await written_of(page(("", text)))

    assert written.calls == {"write": 1}
    assert len(written.sections) == sections


async def test_an_article_without_words_gets_no_script() -> None:
    with pytest.raises(ScriptFailed, match="no words to speak"):
        await written_of(page(("", "..."), title="—"))


async def test_an_article_without_headings_gets_sections_named_by_how_they_begin() -> None:
    article = sentences(60)

    written = await written_of(page(("", "\n\n".join(article))))

    assert written.calls == {"write": 1}
    assert len(written.sections) == 3
    assert in_order(written.narrations, article)
    assert written.sections[0]["title"] == "Bees"
    assert written.sections[1]["title"].rstrip("…") in written.sections[1]["narrations"][0]["text"]


async def test_sixty_headings_are_joined_to_eight_sections_from_beginning_to_end() -> None:
    written = await written_of(long_page(60, 6))

    assert written.calls == {"write": 1}
    assert len(written.sections) == 8
    assert in_order(written.narrations, sentences(360))
    assert 160 <= spoken_seconds(written.narrations) <= 185
    assert written.sections[0]["title"].startswith("Heading 0")
    assert int(written.sections[-1]["title"].split()[-1]) >= 50


@pytest.mark.parametrize("seconds", [20, 60, 600])
async def test_the_length_is_that_of_the_settings(seconds: int) -> None:
    settings = {"target_length_s": seconds, "length_factor": 1.3, "sections": {"min": 2, "max": 4}}

    written = await written_of(long_page(10, 40), settings)

    assert written.calls == {"write": 1}
    assert 2 <= len(written.sections) <= 4
    assert 0.8 * seconds <= spoken_seconds(written.narrations) <= 1.1 * seconds


async def test_a_script_of_200_kb_is_written_from_notes_in_the_articles_sentences() -> None:
    written = await written_of(long_page(60, 60))

    assert written.calls["notes"] >= 2
    assert written.calls["write"] == 1
    assert len(written.sections) == 8
    assert in_order(written.narrations, sentences(3_600))


@pytest.mark.parametrize("text", [CHINESE * 20, RUSSIAN * 12])
async def test_a_long_article_in_another_alphabet_is_written_from_notes(text: str) -> None:
    written = await written_of(
        page(*[(f"{number}", text) for number in range(40)], language=""), {"article_tokens": 6_000}
    )

    assert written.calls["write"] == 1
    assert written.calls["notes"] >= 2
    assert 90 <= spoken_seconds(written.narrations) <= 190


async def test_a_script_refused_as_too_short_includes_the_lists_at_the_second_try() -> None:
    listed = "\n".join(f"- {word} and {word} and more of {word}" for word in WORDS)
    article = page(("", "Bees are small and fly far. They live in hollow trees and in boxes. " * 2), ("List", listed))

    written = await written_of(article, {"length_factor": 1.1})

    assert written.calls == {"write": 2} or written.calls == {"write": 1}
    assert "harbor and harbor and more of harbor" in written.narrations


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["[a](", "(a.) ", "```\n", "## a\n\nb.\n\n", "_a", "\n "])
@pytest.mark.parametrize("everything", [False, True])
def test_hostile_texts_are_read_in_linear_time(piece: str, everything: bool) -> None:
    few, many = (calls_in(partial(split_article, piece * count, everything=everything)) for count in (1_000, 4_000))
    assert many < 5 * few
    # The steps of a regular expression cannot be counted: one of quadratic time takes longer here than a test may.
    split_article(piece * (1_000_000 // len(piece)), everything=everything)
