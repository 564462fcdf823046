"""A video script, and how to write it as script.yaml (A-04).

A write replaces the file atomically.
"""

import re
import tempfile
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from toolweave.errors import ConfigError, ScriptNotSaved
from toolweave.files import replace_file

NonEmptyText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Narration(BaseModel):
    """One continuous text of one speaker; `persona_id` names the speaker if the settings have several."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: NonEmptyText
    persona_id: str | None = None


class ScriptSection(BaseModel):
    """A part of the video: its narrations in order, and a suggestion for its slide."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: NonEmptyText
    narrations: tuple[Narration, ...] = Field(min_length=1)
    slide_prompt: str | None = None


class VideoScript(BaseModel):
    """A complete script, in the language of the settings or of the page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: NonEmptyText
    description: NonEmptyText
    sections: tuple[ScriptSection, ...] = Field(min_length=1)


SCRIPT_FILE_NAME = "script.yaml"
YAML_WIDTH = 100
# A text up to this length is written on the line of its key.
MAX_INLINE_CHARS = 60
# Block style would lose these characters: line ends, control characters, and blanks read as indentation.
_NEEDS_QUOTES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]|(?m:^[^\\S\n]|[^\\S\n]$)|\\A\\s|\\s\\Z")


class ScriptFile:
    """script.yaml in a writable folder.

    Args:
        folder: created with its parents if it does not exist.

    Raises:
        ConfigError: the folder is not writable; raised here, before a script costs anything.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder.expanduser() / SCRIPT_FILE_NAME
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path.parent):
                pass
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"the folder is not writable ({_error_reason(error)}).",
                source=str(folder),
                fix="Use a folder that can be created and written to.",
            ) from None
        if self.path.is_dir():
            raise ConfigError("is a folder.", source=str(self.path), fix="Remove it, or use another folder.")

    def write(self, script: VideoScript) -> None:
        """Write a script; replace an existing one.

        Raises:
            ScriptNotSaved: the file cannot be written; the error carries the script.
        """
        try:
            replace_file(self.path, script_yaml(script).encode(), mode=0o666)
        except OSError as error:
            raise ScriptNotSaved(
                f"The script is complete, but {self.path} could not be written ({_error_reason(error)}).", script=script
            ) from error


def _error_reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def script_yaml(script: VideoScript) -> str:
    """Return the YAML of a script, deterministic, with long texts as blocks and without absent values."""
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
    """Choose the style of a text; YAML adds quotes where the text would be parsed as another type."""
    style = "|" if "\n" in text else ">" if len(text) > MAX_INLINE_CHARS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _NEEDS_QUOTES.search(text) else style)


_ScriptDumper.add_representer(str, _represent_text)
