"""Lay a script out for reading."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from toolweave.cli.terminal import styled
from toolweave.config.script_settings import Persona
from toolweave.video_script import VideoScript


def script_document(script: VideoScript, personas: Sequence[Persona] = ()) -> Iterator[Text]:
    """Give the paragraphs of a script, with empty ones between: who speaks is named where it is somebody."""
    names = {persona.id: persona.name for persona in personas}
    yield styled(script.title, "bold")
    yield Text()
    yield styled(script.description, "italic")
    for number, section in enumerate(script.sections, 1):
        yield Text()
        yield styled(f"{number}. {section.title}", "bold")
        for narration in section.narrations:
            yield Text()
            speaker = narration.persona_id and names.get(narration.persona_id, narration.persona_id)
            yield Text.assemble(styled(f"{speaker}: " if speaker else "", "cyan"), styled(narration.text))
        if section.slide_prompt:
            yield Text()
            yield styled(f"Slide: {section.slide_prompt}", "dim")
