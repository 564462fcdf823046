"""Load the settings of video scripts: model, language, voice and length (A-05).

```yaml
model: google/gemini-2.5-flash      # default: the model of the process, TOOLWEAVE_MODEL
base_url: https://openrouter.ai/api/v1  # default: the endpoint of the process; requires model
language: auto                      # auto: the page's language
narration: {character: A calm teacher, style: Plain sentences}
personas:
  - {id: host, name: Mika, character: 'Curious, asks questions'}
target_length_s: 180
length_factor: 4                    # a script four times too long or too short is rejected
sections: {min: 3, max: 8}
article_tokens: 24000               # input of one model call; a longer article is condensed in parts first
```
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import yaml
from loguru import logger
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from toolweave.config import documents
from toolweave.config.settings import check_http_url
from toolweave.config.variables import fill_references, find_unresolved, malformed_references
from toolweave.errors import ConfigError

_NULL_TEXTS = frozenset({"", "~", "null", "Null", "NULL"})


def read_yaml(path: Path) -> documents.ConfigDocument:
    """Read and parse a YAML file; a file with comments only is an empty mapping.

    Supports mappings, lists and texts. A plain value is a text as written, so that the language `no` is not a boolean.
    A key without a value counts as absent.

    Raises:
        ConfigError: the file is unreadable, empty, not YAML, or has unsupported YAML (a repeated key, an alias, several
            documents, a key that is not a text); names file, line and fix, without quoting the text.
    """
    text, source = documents.read_config_text(path), str(path)
    if not text.strip():
        raise ConfigError("the file is empty.", source=source, fix="Write at least {}.")
    lines: dict[documents.JsonPath, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
        value = {} if node is None else _NodeReader(lines, source).read(node, ())
    except yaml.YAMLError as error:
        raise _yaml_error(text, error, source) from None
    except RecursionError:
        raise ConfigError("is nested too deeply.", source=source, fix="Remove the needless nesting.") from None
    return documents.ConfigDocument(value=value, lines=lines, source=source)


class _NodeReader:
    """Converts YAML nodes to values, and records their lines."""

    def __init__(self, lines: dict[documents.JsonPath, int], source: str) -> None:
        self._lines = lines
        self._source = source
        self._seen: set[int] = set()

    def read(self, node: yaml.Node, path: documents.JsonPath) -> Any:
        if id(node) in self._seen:
            raise self._error(node, "aliases (*name) are not supported.", "Write the value out.")
        self._seen.add(id(node))
        self._lines.setdefault(path, _node_line(node))
        if isinstance(node, yaml.ScalarNode):
            return None if node.style is None and node.value in _NULL_TEXTS else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, place)) for place, item in enumerate(node.value)]
        members: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a key must be a text.", "Put values with braces into quotes.")
            place = (*path, key.value)
            if place in self._lines:
                raise self._error(key, "this key is repeated.", "Keep one of them.")
            self._lines[place] = _node_line(key)
            if (value := self.read(item, place)) is not None:
                members[key.value] = value
        return members

    def _error(self, node: yaml.Node, problem: str, fix: str) -> ConfigError:
        return ConfigError(problem, source=f"{self._source}:{_node_line(node)}", fix=fix)


def _node_line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _yaml_error(text: str, error: yaml.YAMLError, source: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = getattr(error, "position", None)
    line = mark.line + 1 if mark else text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return ConfigError(
        f"not valid YAML: {problem}.",
        source=f"{source}:{line}",
        fix="Check indentation, colons, quotes and brackets there and just before.",
    )


PAGE_LANGUAGE = "auto"
_FIX = "Correct the value, or leave it out to use the default."
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2_000)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class _SettingsPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class NarrationVoice(_SettingsPart):
    """The narrator's character and style; the model chooses if they are empty."""

    character: Text = ""
    style: Text = ""


class Persona(_SettingsPart):
    """A speaker of a script; narrations refer to it by `id`."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    name: Name
    character: Text = ""


class SectionCount(_SettingsPart):
    """Minimum and maximum number of sections of a script."""

    min: int = Field(default=3, ge=1, le=50)
    max: int = Field(default=8, ge=1, le=50)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError("must not have a min above its max")
        return self


def _check_endpoint(text: str) -> str:
    """Reject a URL with credentials: the settings of a job are stored in its thread's state."""
    if urlsplit(check_http_url(text)).username is not None:
        raise ValueError("must not contain credentials: set keys in the environment, such as OPENAI_API_KEY")
    return text


class ScriptSettings(_SettingsPart):
    """Settings of scripts; `ScriptSettings()` has the documented defaults (A-05).

    `model` and `base_url` None mean those of the process. `target_length_s` is the spoken length in seconds,
    `article_tokens` the maximum part of an article in one model call.
    """

    model: Name | None = None
    base_url: Annotated[str, AfterValidator(_check_endpoint)] | None = Field(default=None, repr=False)
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
            raise ValueError("has a base_url, but no model for it")
        ids = [persona.id for persona in self.personas]
        if len(set(ids)) < len(ids):
            raise ValueError("has two personas with the same id")
        return self


def load_script_settings(path: Path | None, environ: Mapping[str, str] = os.environ) -> ScriptSettings:
    """Load the file, or return the defaults without one. Unknown keys are logged and ignored.

    `{env:VAR}` in values is replaced from `environ` (default: the process environment).

    Raises:
        ConfigError: the file is unreadable, not YAML, or a value is invalid or refers to a variable that is not set;
            names file, line and fix, without values.
    """
    if path is None:
        return ScriptSettings()
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise ConfigError("must be a mapping.", source=document.locate(()), fix="Write lines such as language: auto.")
    if document.value and not document.value.keys() & ScriptSettings.model_fields.keys():
        raise ConfigError(
            "has none of the keys of script settings.",
            source=document.locate(()),
            fix=f"Use the file that has them: {', '.join(ScriptSettings.model_fields)}.",
        )
    for warning in documents.unknown_fields(document, (), ScriptSettings):
        logger.warning("script settings: {}", warning)
    values = _fill_references(document, environ)
    try:
        return ScriptSettings.model_validate(values)
    except ValidationError as error:
        location, expected = documents.problems_in(error)[0]
        subject = f"{documents.format_path(location)} {expected}" if location else f"the file {expected}"
        raise ConfigError(f"{subject}.", source=document.locate(location), fix=_FIX) from None


def _fill_references(document: documents.ConfigDocument, environ: Mapping[str, str]) -> dict[str, Any]:
    for key, item in document.value.items():
        if malformed := malformed_references(item, (key,)):
            raise ConfigError(
                f"{documents.format_path(malformed[0])} contains an invalid reference.",
                source=document.locate(malformed[0]),
                fix="Write {env:NAME} or {env:NAME:-default}.",
            )
        if problem := find_unresolved(item, environ).problem:
            raise ConfigError(f"{key}: {problem}", source=document.locate((key,)))
    filled: dict[str, Any] = fill_references(document.value, environ)
    return filled
