"""The offline model writes usable scripts of the pages: the article's own sentences, in its order (A-04, O-01)."""

import pytest

from tests.fixtures.web_pages import truth_of
from tests.nodes.offline_model.scripts.asking import Written, in_order, written_of
from tests.nodes.script.reading import articles, page_of, plain


@pytest.mark.requirement("A-04")
@pytest.mark.parametrize("name", articles())
async def test_every_page_gets_a_script_of_its_own_sentences_in_order_at_the_first_try(name: str) -> None:
    truth = truth_of(name)

    written = await written_of(page_of(name))

    assert written.calls == {"write": 1}
    assert written.script["title"] == truth["title"]
    assert written.script["description"]
    assert 3 <= len(written.sections) <= 8
    if name in ("blog.html", "german.html", "japanese.html"):
        assert [section["title"] for section in written.sections] == [truth["title"], *truth["headings"]]
    assert in_order(written.narrations, [plain(sentence) for sentence in truth["article"]])
    assert all(section["title"] and section["slide_prompt"] for section in written.sections)
    assert not [text for text in truth["navigation"] if plain(text) in written.narrations]


async def test_code_tables_and_fragments_of_lists_are_not_narrated() -> None:
    spoken = "\n".join(
        (await written_of(page_of("docs.html"))).narrations + (await written_of(page_of("recipe.html"))).narrations
    )

    for silent in ("import", "RetryPolicy(", "Connection refused", "50 g butter", "|"):
        assert silent not in spoken
    assert "Freeze it without the toast." in spoken


async def test_speakers_take_turns_and_a_missing_translation_is_named() -> None:
    personas = [{"id": "host", "name": "Mika"}, {"id": "guest", "name": "Ada"}]

    written: Written = await written_of(page_of("news.html"), {"personas": personas, "language": "Finnish"})

    spoken = [narration["persona_id"] for section in written.sections for narration in section["narrations"]]
    assert spoken == [("host", "guest")[place % 2] for place in range(len(spoken))]
    assert written.script["description"].endswith("not translated. (offline model)")


@pytest.mark.parametrize("name", ["blog.html", "german.html", "japanese.html"])
async def test_a_short_script_begins_each_section_with_its_first_sentence(name: str) -> None:
    truth = truth_of(name)

    written = await written_of(page_of(name), {"target_length_s": 30, "length_factor": 1.6})

    assert written.calls == {"write": 1}
    assert in_order(written.narrations, truth["article"])
    assert len(written.sections) >= 3
    assert truth["article"][0] in written.narrations
