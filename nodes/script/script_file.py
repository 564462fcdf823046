"""Define a video script, and keep it as script.yaml in a folder (A-04).

At every moment there is the old file or the new one, never a part.
"""

import re
import tempfile
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from toolweave.errors import ConfigError, ScriptNotKept
from toolweave.files import replace_file

NonEmptyText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Narration(BaseModel):
    """What one speaker says at a time; `persona_id` names the speaker where the settings have several."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: NonEmptyText
    persona_id: str | None = None


class ScriptSection(BaseModel):
    """A part of the video: its narrations in order, and what its slide may show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: NonEmptyText
    narrations: tuple[Narration, ...] = Field(min_length=1)
    slide_prompt: str | None = None


class VideoScript(BaseModel):
    """A whole script, in the language of the settings or of the page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: NonEmptyText
    description: NonEmptyText
    sections: tuple[ScriptSection, ...] = Field(min_length=1)


SCRIPT_FILE_NAME = "script.yaml"
YAML_WIDTH = 100
# A text up to here stays on the line of its key.
MAX_INLINE_CHARS = 60
# Blocks would lose them: a reader takes some for ends of lines, cannot read others, and counts blanks as indentation.
_NEEDS_QUOTES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]|(?m:^[^\\S\n]|[^\\S\n]$)|\\A\\s|\\s\\Z")


class ScriptFile:
    """script.yaml in a folder that can be written to.

    Args:
        folder: made if it is not there, with the folders above it.

    Raises:
        ConfigError: nothing can be written there; found out now, before a script costs anything.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder.expanduser() / SCRIPT_FILE_NAME
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path.parent):
                pass
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no script can be written there ({_error_reason(error)}).",
                source=str(folder),
                fix="Name a folder that can be made and written to.",
            ) from None
        if self.path.is_dir():
            raise ConfigError("is a folder.", source=str(self.path), fix="Remove it, or name another folder.")

    def write(self, script: VideoScript) -> None:
        """Write a script, in the place of one that is there.

        Raises:
            ScriptNotKept: it cannot be written after all; has the script.
        """
        try:
            replace_file(self.path, script_yaml(script).encode(), mode=0o666)
        except OSError as error:
            raise ScriptNotKept(
                f"The script is written, but {self.path} could not be ({_error_reason(error)}).", script=script
            ) from error


def _error_reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def script_yaml(script: VideoScript) -> str:
    """Give the YAML of a script: always the same for the same one, long texts as blocks, what is absent left out."""
    return yaml.dump(
        script.model_dump(mode="json", exclude_none=True),
        Dumper=_ScriptDumper,
        sort_keys=False,
        allow_unicode=True,
        width=YAML_WIDTH,
    )


class _ScriptDumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent the items of a list below its key."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Choose how a text is written; YAML puts it into quotes where it would be read as something else."""
    style = "|" if "\n" in text else ">" if len(text) > MAX_INLINE_CHARS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _NEEDS_QUOTES.search(text) else style)


_ScriptDumper.add_representer(str, _represent_text)
