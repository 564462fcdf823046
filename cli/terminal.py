"""Write to the terminal what servers, models and tools say, without letting it command the terminal."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from toolweave.config.script_settings import Persona
    from toolweave.nodes.script.script_file import VideoScript

# Line feeds and tabs stay; an escape sequence in a model's or a server's text must not reach the terminal, nor what
# shows a text in another order than it is in, or not at all: somebody approves it. Joiners stay, scripts need them.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
MAX_LINE_CHARS = 400


def stdout_console() -> Console:
    """Make the console for results: plain text where stdout is no terminal, never wrapped."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def sanitize(text: str) -> str:
    """Replace control characters."""
    return _CONTROL.sub("�", text)


def sanitized_json(value: Any) -> str:
    """Write a value as JSON to read, control characters as escapes, so that nothing of it is lost."""
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], json.dumps(value, ensure_ascii=False, indent=2))


def styled(text: str, style: str = "") -> Text:
    """Give harmless text in a style."""
    return Text(sanitize(text), style=style)


def compact_json(value: Any) -> str:
    """Write a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def shorten(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Put text on one line and cut it where it is too long to read."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}… ({len(line)} characters)"


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """Write a tool call as name(argument=value, …)."""
    return f"{name}({', '.join(f'{key}={shorten(compact_json(value))}' for key, value in arguments.items())})"


def script_paragraphs(script: "VideoScript", personas: "Sequence[Persona]" = ()) -> Iterator[Text]:
    """Give the paragraphs of a script, with empty ones between: who speaks is named where it is somebody."""
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
