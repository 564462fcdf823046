"""script.yaml is for people to read and edit, and reading it gives the script back whatever its texts hold (A-04)."""

import random

import yaml

from toolweave.nodes.script.script_file import Narration, ScriptSection, VideoScript, script_yaml

SENTENCE = "Bees fly far on a warm day and bring home what the flowers of the meadow give them."
HOSTILE = (
    *("yes", "null", "~", "123", "1e3", "0x1F", "2026-01-01", "---", "...", "<<", "=", "", "\n", " "),
    *("- a", "a: b", "# x", "!tag", "&a", "*a", "%d", "@x", "`x`", "'q'", '"q"', "{a}", "[a]", "? a", "| x", "> y"),
    *("  leads", "trails  ", "a\n b\nc ", "a\n\n\nb", "\n\na\n\n", "---\n---", "a\r\nb", "\\n", "tab\tin", "\ttab"),
    *("e\x85f", "\u2028", "\u2029x", "\ufeffx", "\x00", "\x1b[31m", "\x7f", "\u200b", "a\u00a0b " * 40, "🐝" * 60),
    *("日本語の文章です。" * 30, "x" * 300, "two  blanks  " * 20 + "x", "word " * 30 + "# no comment: " * 9 + "x"),
    *("x " * 50 + "--- ... " + "y " * 30 + "y", "x " * 49 + "x\n" + "y " * 90 + "y", " - " * 40 + "x"),
)
LETTERS = "ab  \n\n\t-:#'\"|>{}[]&*!%@`é\x85\u2028日🐝\x0012~?,\\\r.\u00a0\u3000"


def with_text(text: str) -> VideoScript:
    """Put a text wherever one can stand; titles and narrations may neither be empty nor begin with blanks."""
    narration = Narration(text=f"x{text}x", persona_id=text)
    section = ScriptSection(title=f"x{text}x", narrations=(narration,), slide_prompt=text)
    return VideoScript(title=f"x{text}x", description=f"x{text}x", sections=(section,))


def read(text: str) -> VideoScript:
    return VideoScript.model_validate(yaml.safe_load(text))


def test_a_text_of_any_characters_is_read_as_it_was_written() -> None:
    choose = random.Random(7)
    texts = ["".join(choose.choice(LETTERS) for _ in range(size)) for size in (1, 3, 10, 80, 200) * 30]
    for text in (*HOSTILE, *texts):
        script = with_text(text)
        assert read(script_yaml(script)) == script


def test_long_texts_are_blocks_and_absent_fields_are_left_out() -> None:
    script = VideoScript(
        title="Bienen – 蜂 🐝",
        description=SENTENCE,
        sections=(
            ScriptSection(
                title="no",
                narrations=(
                    Narration(text=f"{SENTENCE} {SENTENCE}", persona_id="host"),
                    Narration(text="One.\n\nTwo."),
                ),
                slide_prompt="A bee",
            ),
        ),
    )
    assert script_yaml(script) == (
        "title: Bienen – 蜂 🐝\n"
        "description: >-\n"
        "  Bees fly far on a warm day and bring home what the flowers of the meadow give them.\n"
        "sections:\n"
        "  - title: 'no'\n"
        "    narrations:\n"
        "      - text: >-\n"
        "          Bees fly far on a warm day and bring home what the flowers of the meadow give them. Bees fly\n"
        "          far on a warm day and bring home what the flowers of the meadow give them.\n"
        "        persona_id: host\n"
        "      - text: |-\n"
        "          One.\n"
        "\n"
        "          Two.\n"
        "    slide_prompt: A bee\n"
    )
