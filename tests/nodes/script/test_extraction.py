"""The article of a page is separated from its navigation, in any format and encoding (A-04)."""

import json
import re

import pytest

from tests.fixtures.web_pages import PAGES, five_megabytes, long_paragraphs, truth_of
from tests.nodes.script.reading import NoArticle, articles, html_page, left_out, page_of, read_article, standing_around
from tests.nodes.script.turns import Turns
from toolweave.nodes.script.extraction import extract_page
from toolweave.nodes.script.page import split_sections

MIN_SHARE = 0.95
PARAGRAPHS = "".join(f"<p>The keeper of lamp {number} trimmed it at dusk and slept well.</p>" for number in range(8))


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize("name", articles())
def test_a_page_becomes_its_article_with_title_language_headings_and_images(name: str) -> None:
    page, truth = page_of(name), truth_of(name)

    missing = left_out(page, name)
    assert len(missing) <= (1 - MIN_SHARE) * len(truth["article"]), missing
    assert standing_around(page, name) == []
    assert (page["title"], page["language"]) == (truth["title"], truth["language"])
    assert [section.heading for section in split_sections(page["text"]) if section.heading] == truth["headings"]
    images = re.findall(r"!\[(.*?)\]\((.*?)\)", page["text"])
    assert images == [(image["alt"], image["caption"]) for image in truth["images"]]


def test_sentences_stand_in_the_section_of_their_heading() -> None:
    sections = dict(split_sections(page_of("news.html")["text"]))

    assert list(sections) == ["", "A price that doubled", "What comes next"]
    assert "The first pupils crossed a gangway" in sections[""]
    assert "The city first put the cost at $9 million." in sections["A price that doubled"]
    assert "On Friday afternoons, everybody learns to swim." in sections["What comes next"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("shell.html", "scripts load its text"),
        ("paywall.html", "for subscribers only"),
        ("teaser.html", "shows only the beginning"),
    ],
)
def test_a_page_without_a_readable_article_is_refused_with_advice(name: str, reason: str) -> None:
    with pytest.raises(NoArticle, match=reason) as raised:
        page_of(name)

    assert "Use the URL" in str(raised.value) or "MCP_CONFIG_PATH" in str(raised.value)


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"", "text/html", "no article"),
        (b"<p>Nothing to see.</p>", "text/html", "almost no text"),
        (b"Hello.", "text/plain", "almost no text"),
        (b"%PDF-1.7 \xe2\xe3", "application/pdf", "application/pdf"),
        (b"%PDF-1.7 \xe2\xe3", "text/html", "binary data"),
        (b"\x89PNG\r\n\x1a\n", "image/png", "image/png"),
        (b'{"a": 1}', "application/json", "application/json"),
        (b"\x00\x01\x02\x03" * 100, "", "binary data"),
        (b"a,b\n1,2\n", "text/csv", "text/csv"),
    ],
)
def test_a_body_without_an_article_is_refused_with_the_reason(body: bytes, content_type: str, reason: str) -> None:
    with pytest.raises(NoArticle, match=reason):
        html_page(body, content_type)


@pytest.mark.parametrize(
    "content_type", ["", "application/octet-stream", "TEXT/HTML;charset=UTF-8", "application/xhtml+xml"]
)
def test_a_page_is_read_under_a_header_of_any_form_or_none(content_type: str) -> None:
    assert page_of("blog.html")["text"] == html_page((PAGES / "blog.html").read_bytes(), content_type)["text"]


@pytest.mark.parametrize(
    ("codec", "content_type", "meta"),
    [
        ("utf-8-sig", "text/html; charset=iso-8859-1", ""),
        ("utf-16", "text/html", ""),
        ("cp1252", "text/html; charset=iso-8859-1", ""),
        ("cp1252", 'text/html; charset="windows-1252"', "utf-8"),
        ("utf-8", "text/html; charset=iso-8859-1", "windows-1252"),
        ("cp1252", "text/html; charset=base64", "latin1"),
        ("utf-16-le", "text/html; charset=utf-16-le", ""),
    ],
)
def test_the_charset_is_found_in_mark_header_meta_or_content(codec: str, content_type: str, meta: str) -> None:
    head = f"<meta charset='{meta}'>" if meta else ""
    words = f"{PARAGRAPHS}<p>À bientôt – 5 €, naïve Jürgen.</p>"
    html = f"<html><head>{head}<title>Café “Größe”</title></head><body><article><h1>Café “Größe”</h1>{words}"

    page = html_page(html.encode(codec), content_type)

    assert page["title"] == "Café “Größe”"
    assert "À bientôt – 5 €, naïve Jürgen." in page["text"]


@pytest.mark.parametrize("codec", ["euc-jp", "iso-2022-jp", "shift_jis"])
def test_japanese_is_read_in_each_of_its_encodings(codec: str) -> None:
    html = (PAGES / "japanese.html").read_text(encoding="utf-8").replace("UTF-8", codec).encode(codec)

    assert html_page(html, "text/html")["text"] == page_of("japanese.html")["text"]


def test_headings_emphasis_and_raised_digits_become_words_to_read_aloud() -> None:
    page = html_page(
        f"<html><body><article><h1>Lamps</h1><h2>About <em>oil</em> <a href='#oil'>#</a></h2>{PARAGRAPHS}"
        "<p>Water is H<sub>2</sub>O, a field 10<sup>2</sup> steps, and the <b>rest</b> a <i>guess</i>"
        "<sup>[3]</sup>.</p></article></body></html>"
    )

    assert [section.heading for section in split_sections(page["text"])] == ["About oil"]
    assert "Water is H₂O, a field 10² steps, and the rest a guess." in page["text"]


def test_images_of_markdown_are_shown_without_their_urls() -> None:
    lines = '![A bee](https://example.org/a_(1).png "On a flower")\n![Hive](<https://example.org/h i.png>)\n'
    inline, code = f"![inline](data:image/png;base64,{'A' * 500})", "```\n![code](stays.png)\n```"

    page = html_page(f"{lines}{inline} {'Bees live here. ' * 9}\n{code}", "text/markdown")

    assert page["text"].startswith("![A bee](On a flower)\n![Hive]()\n![inline]() Bees live here.")
    assert page["text"].endswith(code)


def test_tags_that_are_never_closed_lose_nothing() -> None:
    sentences = [f"This is sentence number {number} of many." for number in range(400)]

    page = html_page("<html><body><article><h1>Many</h1>" + "".join(f"<div>{sentence}" for sentence in sentences))

    assert [sentence for sentence in sentences if sentence not in page["text"]] == []


def test_bodies_of_linked_data_do_not_replace_a_longer_article() -> None:
    short = {"@type": "Article", "articleBody": "A short version that says little about lamps at all."}
    data = json.dumps([{"@type": "Product", "isAccessibleForFree": False}, short])
    script = "<script type='application/ld+json'>"
    page = html_page(
        f"<html><head>{script}{data}</script>{script}{{broken</script>"
        f"</head><body><article><h1>Lamps</h1>{PARAGRAPHS}</article></body></html>"
    )

    assert "lamp 7" in page["text"]
    assert "A short version" not in page["text"]


async def test_an_article_of_five_megabytes_is_whole_and_the_loop_goes_on() -> None:
    turns = Turns()
    async with turns:
        page = await extract_page(five_megabytes(), "https://site.example/long", "text/html", seconds=600)

    found = set(page["text"].replace(". ", ".\n").splitlines())
    sentences = [sentence for paragraph in long_paragraphs() for sentence in paragraph]
    assert sum(sentence in found for sentence in sentences) >= MIN_SHARE * len(sentences)
    assert "Home of the long counts" not in page["text"]
    assert "rights reserved" not in page["text"]
    assert turns.count > 20


@pytest.mark.parametrize(
    "hostile",
    [
        b"<html><body>" + b"<div>" * 1_200 + b"<p>Deep down.</p>",
        b"<html><body><p>" + b"<b>" * 100_000 + b"Deep down.",
        b"<html><script type='application/ld+json'>" + b"[" * 100_000 + b"</script>",
        b"<html><body><table>" + b"<tr><td><h1>" * 250,
        b"<a " * 50_000,
    ],
    ids=["deep blocks", "deep inline", "deep data", "deep tables", "open tags"],
)
def test_a_hostile_page_is_read_or_refused(hostile: bytes) -> None:
    try:
        text = html_page(hostile, "text/html")["text"]
    except NoArticle as refused:
        text = str(refused)

    assert "Deep down." in text or "Use the URL" in text or "MCP_CONFIG_PATH" in text


def test_a_row_of_comments_before_a_text_can_be_read_in_one_way_only() -> None:
    assert "Lamps burn oil." in html_page(b"<!-- -->" * 500 + b"Lamps burn oil." * 9, "")["text"]


@pytest.mark.parametrize("written", ["&#x1f;", "&#xFFFF;", "&#0000001", "\x1b"])
def test_an_invalid_character_does_not_end_the_article(written: str) -> None:
    page = html_page(f"<html><title>Oil{written}s</title><body><article>{PARAGRAPHS}<p>It{written}s out.</p></article>")

    assert page["title"] == "Oils"
    assert page["text"].endswith("Its out.")
    assert "keeper of lamp 7" in page["text"]


def test_invalid_characters_in_the_data_of_a_page_are_removed() -> None:
    content = "A lamp \ud800is\x00 \x1blit by hand. " * 40
    data = json.dumps(
        {
            "@context": "https://schema.org",
            "@type": "Article",
            "headline": "La\udfffmp\x00s\x9b",
            "articleBody": content,
        }
    )
    page = html_page(f"<html><script type='application/ld+json'>{data}</script><body><article><p>A lamp.</p></article>")

    assert page["title"] == "Lamps"
    assert page["text"].startswith("A lamp is lit by hand.")
    json.dumps(page, ensure_ascii=False).encode()
    page = read_article(b"Lamps burn oil. " * 9, "", "https://a.example/La%07mp%E2%80%AEs\x07.md", "text/markdown")
    assert (page["title"], page["final_url"]) == ("Lamps", "https://a.example/La%07mp%E2%80%AEs.md")
