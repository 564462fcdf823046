"""Read header values that depend on who calls: {user:field} and {configurable:name}, each with an optional default.

A template is taken apart before variables are filled in, so that no variable's value is ever read as a template.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolweave.config.interpolate import resolve
from toolweave.config.problems import Location

Source = Literal["user", "configurable"]

_VARIABLE = r"\$?\{env:[A-Za-z_][A-Za-z0-9_]*(?::-[^{}]*)?\}"
_FIELD = re.compile(
    r"\$?\{(?P<source>user|configurable):(?P<path>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)"
    rf"(?::-(?P<default>(?:[^{{}}]|{_VARIABLE})*))?\}}"
)
_OPENING = re.compile(r"\{(?:user|configurable):")
FORM = "contains a template that is not of the form {user:field}, {configurable:name} or {user:field:-default}"
PLACE = "holds a template of who calls, which only headers of a remote server may"


@dataclass(frozen=True, slots=True)
class CallerField:
    """One reference to the caller: `path` is dotted; without a `default` a call of somebody who lacks it is refused."""

    source: Source
    path: str
    default: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HeaderTemplate:
    """A header's value in parts: text as it is, and fields to be read from whoever calls."""

    parts: tuple[str | CallerField, ...] = field(repr=False)

    @property
    def needs_caller(self) -> bool:
        """Say whether there is no value without a caller."""
        return any(isinstance(part, CallerField) and part.default is None for part in self.parts)


def parse_template(text: str, environ: Mapping[str, str]) -> HeaderTemplate | None:
    """Take a value apart, its variables filled in; None when nothing in it depends on the caller."""
    parts: list[str | CallerField] = []
    end = 0
    for match in _FIELD.finditer(text):
        default = match["default"]
        source: Source = "user" if match["source"] == "user" else "configurable"
        parts += [resolve(text[end : match.start()], environ)]
        parts += [CallerField(source, match["path"], None if default is None else resolve(default, environ))]
        end = match.end()
    if not parts:
        return None
    parts.append(resolve(text[end:], environ))
    return HeaderTemplate(tuple(part for part in parts if part != ""))


def header_templates(raw: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, HeaderTemplate]:
    """Return those headers of an entry, as written, that depend on the caller."""
    headers = raw.get("headers")
    if not isinstance(headers, dict):
        return {}
    parsed = {name: parse_template(text, environ) for name, text in headers.items() if isinstance(text, str)}
    return {name: template for name, template in parsed.items() if template}


def template_problems(raw: Mapping[str, Any], *, has_headers: bool) -> list[tuple[Location, str]]:
    """List where an entry holds a template that is malformed, or cannot have one.

    Args:
        raw: the known keys of the entry as written.
        has_headers: its transport sends headers.
    """
    problems: list[tuple[Location, str]] = []
    for path, text in _strings(raw):
        if not _OPENING.search(text):
            continue
        if path[0] != "headers" or not has_headers:
            problems.append((path, PLACE))
        elif _OPENING.search(_FIELD.sub("", text)):
            problems.append((path, FORM))
    return problems


def _strings(value: Any, path: Location = ()) -> list[tuple[Location, str]]:
    if isinstance(value, str):
        return [(path, value)]
    members = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, item in members for found in _strings(item, (*path, step))]
