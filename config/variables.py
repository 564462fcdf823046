"""Replace references in configuration values: {env:VAR}, and in headers {user:field} and {configurable:name}.

Errors name variables and never show values. A header template is parsed before variables are replaced, so that a
variable's value is never parsed as a template.

TOOLWEAVE_TOOL_ENV lists the variables that tool configurations may refer to, and the hosts that may get their values
(W-01, W-08). A caller who registers a tool chooses the host to which the value of `{env:VAR}` is sent. Therefore a
configuration may refer only to variables in this list, optionally for one host each: `TOOL_SHOP_*@api.shop.com`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from toolweave.config.documents import JsonPath
from toolweave.config.outbound_allow import AllowedTarget, comma_separated, parse_allowed_target
from toolweave.errors import ConfigError, MissingVariable

_REFERENCE = re.compile(r"\$?\{env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}")
_EDITOR_VARIABLE = re.compile(
    r"\$\{(?:input:[^{}]*|workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/)\}"
)
_OPENING = re.compile(r"\{env:|\$\{input:")


@dataclass(frozen=True, slots=True)
class UnresolvedReferences:
    """Unresolved references of a value: variables without value or default, and variables of editors."""

    missing: tuple[str, ...] = ()
    editor_only: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Return one paragraph on why the value cannot be resolved, or None if it can."""
        parts = []
        if self.missing:
            verb, example = ("is", self.missing[0]) if len(self.missing) == 1 else ("are", "NAME")
            parts.append(
                f"environment variable {', '.join(self.missing)} {verb} not set: "
                f"set it, or give a default with {{env:{example}:-default}}."
            )
        parts += [f"{name} is known to editors only: write the value or {{env:NAME}}." for name in self.editor_only]
        return " ".join(parts) or None


def strings_in(value: Any, path: JsonPath = ()) -> Iterator[tuple[JsonPath, str]]:
    """Yield the strings of a parsed value, each with its path."""
    if isinstance(value, str):
        yield path, value
    members = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for step, item in members:
        yield from strings_in(item, (*path, step))


def holds_reference(value: Any) -> bool:
    """Return whether a parsed value contains a reference, at any depth."""
    return any(_REFERENCE.search(text) or _EDITOR_VARIABLE.search(text) for _, text in strings_in(value))


def malformed_references(value: Any, path: JsonPath = ()) -> list[JsonPath]:
    """Return the paths of strings with a malformed reference, such as {env:MY-VAR} or an unclosed one."""
    return [
        place
        for place, text in strings_in(value, path)
        if _OPENING.search(_REFERENCE.sub("", _EDITOR_VARIABLE.sub("", text)))
    ]


def find_unresolved(value: Any, environ: Mapping[str, str]) -> UnresolvedReferences:
    """Return the unresolvable references in order of appearance; an empty variable counts as unset (A-06)."""
    missing: dict[str, None] = {}
    editor: dict[str, None] = {}
    for _, text in strings_in(value):
        for match in _REFERENCE.finditer(text):
            if match["default"] is None and not environ.get(match["variable"]):
                missing[match["variable"]] = None
        editor |= dict.fromkeys(_EDITOR_VARIABLE.findall(text))
    return UnresolvedReferences(tuple(missing), tuple(editor))


def fill_references(value: Any, environ: Mapping[str, str]) -> Any:
    """Replace every {env:VAR} reference in the strings of a parsed value, once; other values stay unchanged.

    Call it only for values without unresolved references (`find_unresolved`).
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: environ.get(match["variable"]) or match["default"] or "", value)
    if isinstance(value, dict):
        return {key: fill_references(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_references(item, environ) for item in value]
    return value


def variable_names(value: Any) -> tuple[str, ...]:
    """Return the variables that a parsed value refers to, each once."""
    found = (match["variable"] for _, text in strings_in(value) for match in _REFERENCE.finditer(text))
    return tuple(dict.fromkeys(found))


def env_values(value: Any, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of `environ` that `fill_references` inserts; defaults stand in the file and are not secret."""
    return tuple(environ[name] for name in variable_names(value) if environ.get(name))


Source = Literal["user", "configurable"]
_ENV = r"\$?\{env:[A-Za-z_][A-Za-z0-9_]*(?::-[^{}]*)?\}"
_CALLER_FIELD = re.compile(
    r"\$?\{(?P<source>user|configurable):(?P<path>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)"
    rf"(?::-(?P<default>(?:[^{{}}]|{_ENV})*))?\}}"
)
_CALLER_OPENING = re.compile(r"\{(?:user|configurable):")
TEMPLATE_FORM_PROBLEM = "contains a template other than {user:field}, {configurable:name} or {user:field:-default}"
TEMPLATE_PLACE_PROBLEM = "contains a caller template, which is allowed only in headers of a remote server"


@dataclass(frozen=True, slots=True)
class CallerField:
    """A reference to a field of the caller: `path` is dotted; without `default` a caller must have the field."""

    source: Source
    path: str
    default: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HeaderTemplate:
    """A header's value in parts: texts, and fields of the caller."""

    parts: tuple[str | CallerField, ...] = field(repr=False)

    @property
    def needs_caller(self) -> bool:
        """Return whether the value requires a field of the caller."""
        return any(isinstance(part, CallerField) and part.default is None for part in self.parts)


def parse_template(text: str, environ: Mapping[str, str]) -> HeaderTemplate | None:
    """Parse a value and replace its variables; return None if it does not depend on the caller."""
    parts: list[str | CallerField] = []
    end = 0
    for match in _CALLER_FIELD.finditer(text):
        default = match["default"]
        source: Source = "user" if match["source"] == "user" else "configurable"
        parts += [fill_references(text[end : match.start()], environ)]
        parts += [CallerField(source, match["path"], None if default is None else fill_references(default, environ))]
        end = match.end()
    if not parts:
        return None
    parts.append(fill_references(text[end:], environ))
    return HeaderTemplate(tuple(part for part in parts if part != ""))


def header_templates(raw: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, HeaderTemplate]:
    """Return the headers of an entry as written that depend on the caller."""
    headers = raw.get("headers")
    if not isinstance(headers, dict):
        return {}
    parsed = {name: parse_template(text, environ) for name, text in headers.items() if isinstance(text, str)}
    return {name: template for name, template in parsed.items() if template}


def template_problem(raw: Mapping[str, Any], *, has_headers: bool) -> tuple[JsonPath, str] | None:
    """Return the path and the problem of the first template that is malformed or not allowed there.

    Args:
        raw: the known keys of the entry as written.
        has_headers: whether its transport sends headers.
    """
    for path, text in strings_in(raw):
        if _CALLER_OPENING.search(text) and (path[0] != "headers" or not has_headers):
            return path, TEMPLATE_PLACE_PROBLEM
        if _CALLER_OPENING.search(_CALLER_FIELD.sub("", text)):
            return path, TEMPLATE_FORM_PROBLEM
    return None


DEFAULT_ALLOWED = "TOOL_*"
TOOL_ENV_SETTING = "TOOLWEAVE_TOOL_ENV"
_VARIABLE = re.compile(r"(?P<names>[A-Za-z_*?][A-Za-z0-9_*?]*)(?:@(?P<host>[^/]+))?")
# A host is written without the default port of its scheme.
_DEFAULT_PORTS = (80, 443)


@dataclass(frozen=True, slots=True)
class AllowedVariable:
    """A case-sensitive glob of variable names, and the only host that may get their values.

    A host without a port means the default port only.
    """

    names: str
    host: str | None = None

    def covers(self, name: str, authority: str) -> bool:
        """Return whether `authority` (a host, with its port unless it is the default) may get a variable's value."""
        return fnmatchcase(name, self.names) and (self.host is None or _parse_host(self.host) == _parse_host(authority))


@dataclass(frozen=True, slots=True)
class ToolVariables:
    """The variables that tool configurations may refer to (TOOLWEAVE_TOOL_ENV)."""

    allowed: tuple[AllowedVariable, ...] = (AllowedVariable(DEFAULT_ALLOWED),)

    def reference_problems(self, texts: Mapping[str, str], authority: str) -> list[str]:
        """Describe references that are malformed or not allowed for `authority`; `texts` maps locations to texts."""
        problems = []
        for place, text in texts.items():
            if malformed_references(text) or "${input:" in text:
                problems.append(f"{place} holds a reference that is not of the form {{env:NAME}}.")
            problems += [
                f"{place} refers to {name}, which {TOOL_ENV_SETTING} does not allow for {authority}."
                for name in variable_names(text)
                if not any(entry.covers(name, authority) for entry in self.allowed)
            ]
        return problems

    def resolve(self, text: str, authority: str, environ: Mapping[str, str] = os.environ) -> str:
        """Replace the variables of a text that is sent to `authority`, by default from the process environment.

        Raises:
            ConfigError: a variable is not allowed for this host.
            MissingVariable: a variable has neither a value nor a default.
        """
        if problems := self.reference_problems({"The tool's configuration": text}, authority):
            raise ConfigError(" ".join(problems), fix=f"The operator of this server adds it to {TOOL_ENV_SETTING}.")
        if missing := find_unresolved(text, environ).missing:
            raise MissingVariable(missing)
        return str(fill_references(text, environ))

    def env_values(self, text: str, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
        """Return the values of the environment that `resolve` inserts into a text."""
        return env_values(text, environ)


def _parse_allowed_variable(text: str) -> AllowedVariable:
    """Parse one entry: a glob of names, optionally with `@host`; raises ValueError without quoting it."""
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise ValueError("must be variable names with * and ?, each optionally with @host, separated by commas")
    if found["host"] is not None:
        _parse_host(found["host"])
    return AllowedVariable(found["names"], found["host"])


def parse_tool_variables(value: Any) -> Any:
    """Parse the setting."""
    return ToolVariables(comma_separated(_parse_allowed_variable)(value)) if isinstance(value, str) else value


def _parse_host(host: str) -> AllowedTarget:
    """Parse a host as in `TOOLWEAVE_OUTBOUND_ALLOW`, so that all spellings of a host are equal."""
    try:
        place = parse_allowed_target(host)
    except ValueError:
        raise ValueError("the text after @ must be one host, with its port unless it is the default port") from None
    return AllowedTarget(place.host) if place.port in _DEFAULT_PORTS else place
