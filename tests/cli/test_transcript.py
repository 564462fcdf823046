"""A chat turn in the terminal."""

from io import StringIO
from typing import Any

from rich.console import Console

from toolweave.cli.chat import Transcript
from toolweave.cli.terminal import sanitize, shorten


def shown(*events: tuple[str, dict[str, Any]]) -> str:
    output = StringIO()
    transcript = Transcript(Console(file=output, soft_wrap=True, highlight=False, markup=False, emoji=False))
    for name, data in events:
        transcript.show_event(name, data)
    return output.getvalue()


def test_an_answer_is_shown_once_streamed_or_not() -> None:
    assert shown(("message", {"content": "Done."})) == "Done.\n"
    tokens = [("token", {"text": text}) for text in ("Hel", "lo ", ":smile: [b]you[/b]")]
    assert shown(*tokens, ("message", {"content": "Hello :smile: [b]you[/b]"})) == "Hello :smile: [b]you[/b]\n"


def test_calls_and_results_stand_on_lines_of_their_own() -> None:
    text = shown(
        ("token", {"text": "Let me see"}),
        ("tool_call", {"id": "1", "name": "list_todos", "args": {"status": "active", "limit": 5}}),
        ("tool_result", {"id": "1", "name": "list_todos", "status": "success", "content": '{\n "data": []\n}'}),
        ("token", {"text": "None."}),
        ("message", {"content": "None."}),
    )
    assert text.splitlines() == [
        "Let me see",
        '  → list_todos(status="active", limit=5)',
        '  ← list_todos: { "data": [] }',
        "None.",
    ]


def test_a_failed_run_shows_its_error() -> None:
    assert shown(("token", {"text": "Wor"}), ("error", {"message": "no key"})) == "Wor\nThe run failed: no key\n"


def test_no_text_of_a_model_or_a_server_controls_the_terminal() -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\x9b31m\r"
    text = shown(
        ("token", {"text": hostile}),
        ("tool_call", {"id": "1", "name": f"x{hostile}", "args": {hostile: hostile}}),
        ("tool_result", {"id": "1", "name": hostile, "status": "error", "content": hostile}),
        ("message", {"content": hostile}),
        ("error", {"message": hostile}),
    )
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(text)


def test_long_text_is_cut_and_its_length_shown() -> None:
    assert shorten("ab " * 1000, 5) == "ab ab… (2999 characters)"


def test_a_terminal_shows_texts_in_the_order_they_are_in_and_nothing_unseen() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "all")
    assert (
        sanitize(f"rm \u202eelif\u2066 a\u200b{hidden}\x1b[2J")
        == "rm \ufffdelif\ufffd a\ufffd\ufffd\ufffd\ufffd\ufffd[2J"
    )
    assert sanitize("naïve 日本 👩\u200d💻\n\t") == "naïve 日本 👩\u200d💻\n\t"
