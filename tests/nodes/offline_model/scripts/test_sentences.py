"""Paragraphs are divided into their sentences in many languages, and marks are taken out of them."""

import pytest

from toolweave.nodes.offline_model.article import (
    Worth,
    framed_article,
    is_of_the_page,
    leans,
    read_article,
    sentences_of,
    without_marks,
)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met Mr. J. R. Brown at 5 p.m. on Monday.", "It cost $9.5 million, e.g. for pontoons.", "Why?"],
        ["“Are you sure?” asked Tom.", "“I am.”", "He left (at last)."],
        ["The school opens in 2026.", "Whether it floats is open…", "We wait… and see!"],
        ["Am 3. Oktober kamen ca. 200 Gäste, z. B. aus Wien.", "Der 2. Turm fasst 1.200 Kubikmeter.", "„Gut so.“"],
        ["M. Dupont n’a rien dit.", "« Vraiment ? »", "Oui, p. ex. lundi !", "Elle rit."],
        ["¿Vino el Sr. Pérez?", "¡Claro!", "La Sra. Gómez también."],
        ["祖母から譲り受けました。", "「行こう。」と言いました。", "本当ですか？", "はい！"],
        ["他来了。", "“走吧。”他说。", "好！"],
        ["А. С. Пушкин родился в 1799 г. в Москве.", "Это знают все."],
        ["هل تستمر المكتبة؟", "يبتسم."],
    ],
)
def test_a_paragraph_is_divided_where_its_sentences_end(sentences: list[str]) -> None:
    joined = ("" if sentences[0] > "\u3000" else " ").join(sentences)

    assert list(sentences_of(joined)) == sentences


@pytest.mark.parametrize("row", ["." * 30_000, "." + "»" * 60, "." + " »" * 40, "?!…" * 9_000, "。" + "」" * 9_000])
def test_a_long_row_of_marks_can_be_read_in_one_way_only(row: str) -> None:
    assert "".join(sentences_of(f"So{row}x")) == f"So{row}x"
    assert read_article(f"# Rows\n\nSo it is{row}x").parts


@pytest.mark.parametrize(
    ("marked", "said"),
    [
        ("**Bold**, *slanted*, _underlined_ and ~~gone~~", "Bold, slanted, underlined and gone"),
        ("Call `next(*a)` and [read](https://x.y/a_(b) \"t\") it[^1].[12]", "Call next(*a) and read it."),
        ("[**Bold** link](/a) ![i](b) and <b>html</b>, 2 * 3 < 4, a_name", "Bold link and html, 2 * 3 < 4, a_name"),
        (r"5 \* 3 \_a\_", "5 * 3 _a_"),
    ],
)  # fmt: skip
def test_marks_are_taken_out_and_words_stay(marked: str, said: str) -> None:
    assert without_marks(marked) == said


def test_an_article_is_read_as_its_parts_with_their_images_and_what_each_line_is() -> None:
    article = read_article(
        "# Title\n\nA first sentence is here. Then\none more follows.\n\n![a bee](On a flower.)\nOn a flower.\n\n"
        "## List\n\nThere are two rules:\n\n- Never run in here.\n- Stop\n\n"
        "```\nx = 1. Code it is.\n## no heading\n```\n"
        "| a | b |\n|---|---|\n| c | d |\n## List (continued)\n\nIt goes on and on."
    )

    assert article.title == "Title"
    assert [part.heading for part in article.parts] == ["", "List"]
    assert article.parts[0].images == [("a bee", "On a flower.")]
    said = {sentence.text: sentence.worth for part in article.parts for sentence in part.sentences}
    assert [text for text, worth in said.items() if worth is Worth.PROSE] == [
        "A first sentence is here.",
        "Then one more follows.",
        "It goes on and on.",
    ]
    assert [text for text, worth in said.items() if worth is Worth.ITEM] == [
        "There are two rules:",
        "Never run in here.",
    ]
    assert said["Stop"] is said["a, b"] is said["c, d"] is Worth.FRAGMENT
    assert said["x = 1. Code it is."] is said["## no heading"] is Worth.CODE


def test_the_article_is_what_stands_between_the_marks() -> None:
    assert framed_article("Write.\n\n<article>\n# T\n\ntext\n</article>") == "# T\n\ntext"
    assert framed_article("no article") is None


@pytest.mark.parametrize(
    "text",
    [
        "By Jane Doe", "Von Käthe Ölschläger", "Photo: A. B.", "Read more about it here.", "Lire aussi : le marché.",
        "© 2024 The Courier.", "Sign up for our letters.", "関連記事はこちら。", "Subscribe to get more of it.",
    ],
)  # fmt: skip
def test_what_speaks_of_the_page_is_known(text: str) -> None:
    assert is_of_the_page(text)


def test_a_sentence_that_needs_the_one_before_it_is_known() -> None:
    assert leans("It fell over.")
    assert leans("Dabei entsteht Methan.")
    assert leans("“Now.”", "“My school smelled,” he said.")
    assert not leans("Bees are small.")
    assert not is_of_the_page("Reading is fun for bees.")
