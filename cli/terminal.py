"""Format texts of servers, models and tools for a terminal, so that they cannot control it."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from toolweave.errors import RequestError

if TYPE_CHECKING:
    from toolweave.config.script_settings import Persona
    from toolweave.nodes.script.script_file import VideoScript

# A model's or a server's text must not contain escape sequences, nor characters that reorder or hide text: a user
# approves what is shown. Line feeds and tabs stay, and joiners, which some writing systems need.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
MAX_LINE_CHARS = 400
MIN_COLUMN_CHARS = 20


def stdout_console() -> Console:
    """Return the console for results: wrapped on a terminal, elsewhere plain text in its own lines."""
    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False, markup=False, emoji=False)


def show_table(console: Console, rows: Sequence[Sequence[Text]]) -> None:
    """Print aligned columns; on a terminal the last one is wrapped to the width."""
    widths = [max(cell.cell_len for cell in column) + 2 for column in zip(*rows, strict=True)][:-1]
    room = max(console.width - sum(widths), MIN_COLUMN_CHARS) if console.is_terminal else sys.maxsize
    for *cells, last in rows:
        for cell, width in zip(cells, widths, strict=True):
            cell.pad_right(width - cell.cell_len)
        for number, line in enumerate(last.wrap(console, room)):
            console.print(Text.assemble(*cells, line) if number == 0 else Text.assemble(" " * sum(widths), line))


def confirm(question: str) -> None:
    """Ask the user on the terminal; without consent the command ends.

    Raises:
        RequestError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise RequestError(f"{sanitize(question)} There is no terminal to ask: use --yes.")
    typer.confirm(sanitize(question), abort=True)


def parse_json(text: str) -> Any:
    """Parse JSON, without the constants that Python adds to it.

    Raises:
        ValueError: it is not valid, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def sanitize(text: str) -> str:
    """Replace control characters."""
    return _CONTROL.sub("�", text)


def sanitized_json(value: Any) -> str:
    """Format a value as readable JSON; control characters become escapes, so that nothing is lost."""
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], json.dumps(value, ensure_ascii=False, indent=2))


def styled(text: str, style: str = "") -> Text:
    """Return sanitized text in a style."""
    return Text(sanitize(text), style=style)


def compact_json(value: Any) -> str:
    """Format a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def shorten(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Put text on one line and cut it at `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}… ({len(line)} characters)"


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """Format a tool call as name(argument=value, …)."""
    return f"{name}({', '.join(f'{key}={shorten(compact_json(value))}' for key, value in arguments.items())})"


def script_paragraphs(script: "VideoScript", personas: "Sequence[Persona]" = ()) -> Iterator[Text]:
    """Yield the paragraphs of a script, separated by empty ones; a narration by a persona begins with its name."""
    names = {persona.id: persona.name for persona in personas}
    yield from (styled(script.title, "bold"), Text(), styled(script.description, "italic"))
    for number, section in enumerate(script.sections, 1):
        yield from (Text(), styled(f"{number}. {section.title}", "bold"))
        for narration in section.narrations:
            yield Text()
            speaker = narration.persona_id and names.get(narration.persona_id, narration.persona_id)
            yield Text.assemble(styled(f"{speaker}: " if speaker else "", "cyan"), styled(narration.text))
        if section.slide_prompt:
            yield from (Text(), styled(f"Slide: {section.slide_prompt}", "dim"))
