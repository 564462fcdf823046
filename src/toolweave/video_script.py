"""Hold a video script: what the script writer makes of a page (A-04)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Narration(BaseModel):
    """What one speaker says at a time; `persona_id` names the speaker where the settings have several."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Words
    persona_id: str | None = None


class ScriptSection(BaseModel):
    """A part of the video: its narrations in order, and what its slide may show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Words
    narrations: tuple[Narration, ...] = Field(min_length=1)
    slide_prompt: str | None = None


class VideoScript(BaseModel):
    """A whole script, in the language of the settings or of the page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Words
    description: Words
    sections: tuple[ScriptSection, ...] = Field(min_length=1)
