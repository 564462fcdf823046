"""Read the settings of video scripts: which model writes them, in which language, voice and length (A-05).

```yaml
model: google/gemini-2.5-flash      # default: the model of the process, TOOLWEAVE_MODEL
base_url: https://openrouter.ai/api/v1  # default: the endpoint of the process; with it, model is needed
language: auto                      # auto: the page's own
narration: {character: A calm teacher, style: Plain sentences}
personas:
  - {id: host, name: Mika, character: 'Curious, asks questions'}
target_length_s: 180
length_factor: 4                    # a script four times too long or too short is refused
sections: {min: 3, max: 8}
article_tokens: 24000               # what one model call may read of the article; more is condensed in parts first
```
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from loguru import logger
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from toolweave.config.ignored_keys import ignored_keys
from toolweave.config.interpolate import find_references, malformed_references, resolve
from toolweave.config.jsonc import JsoncDocument
from toolweave.config.problems import sentences, shown_path
from toolweave.config.setting_types import http_url
from toolweave.config.yaml_document import read_yaml
from toolweave.errors import ConfigError

PAGE_LANGUAGE = "auto"
_FIX = "Correct the value, or leave it out to use the default."

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2_000)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class NarrationVoice(_Part):
    """Who tells the script and how; empty texts leave it to the model."""

    character: Text = ""
    style: Text = ""


class Persona(_Part):
    """One of the speakers of a script; narrations name it by `id`."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    name: Name
    character: Text = ""


class SectionCount(_Part):
    """How many sections a script has."""

    min: int = Field(default=3, ge=1, le=50)
    max: int = Field(default=8, ge=1, le=50)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError("must not have a min above its max")
        return self


def _endpoint(value: Any) -> Any:
    """Take a URL without credentials: the settings of a job go into its thread's state."""
    url = http_url(value)
    if isinstance(url, str) and urlsplit(url).username is not None:
        raise ValueError("must hold no credentials: keys are read from the environment, such as OPENAI_API_KEY")
    return url


class ScriptSettings(_Part):
    """What scripts are to be like; `ScriptSettings()` holds the documented defaults (A-05).

    `model` and `base_url` None stand for those of the process. `target_length_s` is the spoken length in seconds,
    `article_tokens` how much of an article one model call may read.
    """

    model: Name | None = None
    base_url: Annotated[str, BeforeValidator(_endpoint)] | None = Field(default=None, repr=False)
    language: Name = PAGE_LANGUAGE
    narration: NarrationVoice = NarrationVoice()
    personas: tuple[Persona, ...] = Field(default=(), max_length=20)
    target_length_s: int = Field(default=180, ge=10, le=7_200)
    length_factor: float = Field(default=4.0, gt=1, le=100, allow_inf_nan=False)
    sections: SectionCount = SectionCount()
    article_tokens: int = Field(default=24_000, ge=500, le=2_000_000)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.base_url and not self.model:
            raise ValueError("names a base_url, but no model there")
        ids = [persona.id for persona in self.personas]
        if len(set(ids)) < len(ids):
            raise ValueError("has two personas with the same id")
        return self


def load_script_settings(path: Path | None, environ: Mapping[str, str] | None = None) -> ScriptSettings:
    """Read the file; without one, give the defaults. Unknown keys are logged, and ignored.

    `{env:VAR}` in values is filled in from `environ`, by default the process's.

    Raises:
        ConfigError: the file is not readable, not YAML, or a value is wrong or refers to a variable that is not set;
            names file, line and fix, and shows no value.
    """
    if path is None:
        return ScriptSettings()
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise ConfigError("must be a mapping.", source=document.place(()), fix="Write lines such as language: auto.")
    if document.value and not document.value.keys() & ScriptSettings.model_fields.keys():
        raise ConfigError(
            "holds none of the keys of script settings.",
            source=document.place(()),
            fix=f"Name the file that has them: {', '.join(ScriptSettings.model_fields)}.",
        )
    for warning in _warnings(document):
        logger.warning("script settings: {}", warning)
    values = _resolved(document, os.environ if environ is None else environ)
    try:
        return ScriptSettings.model_validate(values)
    except ValidationError as error:
        location, expected = sentences(error)[0]
        subject = f"{shown_path(location)} {expected}" if location else f"the file {expected}"
        raise ConfigError(f"{subject}.", source=document.place(location), fix=_FIX) from None


def _warnings(document: JsoncDocument) -> list[str]:
    warnings = ignored_keys(document, (), ScriptSettings.model_fields)
    for name, part in (("narration", NarrationVoice), ("sections", SectionCount)):
        warnings += ignored_keys(document, (name,), part.model_fields, owner=f"{name}: ")
    personas = document.value.get("personas")
    for place in range(len(personas) if isinstance(personas, list) else 0):
        warnings += ignored_keys(document, ("personas", place), Persona.model_fields, owner=f"personas[{place}]: ")
    return warnings


def _resolved(document: JsoncDocument, environ: Mapping[str, str]) -> dict[str, Any]:
    """Fill in variables; a key without a value counts as left out."""
    given: dict[str, Any] = _without_nothing(document.value)
    for key, item in given.items():
        if malformed := malformed_references(item, (key,)):
            raise ConfigError(
                f"{shown_path(malformed[0])} holds a reference that cannot be read.",
                source=document.place(malformed[0]),
                fix="Write {env:NAME} or {env:NAME:-default}.",
            )
        if problem := find_references(item, environ).problem:
            raise ConfigError(f"{key}: {problem}", source=document.place((key,)))
    resolved: dict[str, Any] = resolve(given, environ)
    return resolved


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value
