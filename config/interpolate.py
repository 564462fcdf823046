"""Resolve {env:VAR} references inside parsed values; errors name variables and never show values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_REFERENCE = re.compile(
    r"\$?\{env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}|\$\{input:(?P<input>[^{}]*)\}"
)
_EDITOR_VARIABLE = re.compile(r"\$\{(?P<name>workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/)\}")
_OPENING = re.compile(r"\{env:|\$\{input:")


@dataclass(frozen=True, slots=True)
class References:
    """What a value refers to: variables without a value or default, inputs and variables only an editor has."""

    missing: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    editor: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Say in one paragraph why the value cannot be resolved, None when it can."""
        parts = []
        if self.missing:
            verb, example = ("is", self.missing[0]) if len(self.missing) == 1 else ("are", "NAME")
            parts.append(
                f"environment variable {', '.join(self.missing)} {verb} not set: "
                f"set it, or give a default with {{env:{example}:-default}}."
            )
        parts += [f"${{input:{name}}} is a question only an editor asks: write {{env:NAME}}." for name in self.inputs]
        parts += [f"${{{name}}} is known to editors only: write the path or {{env:NAME}}." for name in self.editor]
        return " ".join(parts) or None


def holds_reference(value: Any) -> bool:
    """Tell whether a parsed value contains a reference, at any depth."""
    return any(_REFERENCE.search(text) or _EDITOR_VARIABLE.search(text) for text in _strings(value))


def malformed_references(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """List the paths of strings that open a reference but hold none, such as {env:MY-VAR} or an unclosed one."""
    if isinstance(value, str):
        return [path] if _OPENING.search(_REFERENCE.sub("", value)) else []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, item in members for found in malformed_references(item, (*path, step))]


def find_references(value: Any, environ: Mapping[str, str]) -> References:
    """Collect what cannot be resolved, in order of appearance; an empty variable counts as unset (A-06)."""
    missing: dict[str, None] = {}
    inputs: dict[str, None] = {}
    editor: dict[str, None] = {}
    for text in _strings(value):
        for match in _REFERENCE.finditer(text):
            variable = match["variable"]
            if variable is None:
                inputs[match["input"]] = None
            elif match["default"] is None and not environ.get(variable):
                missing[variable] = None
        editor.update((match["name"], None) for match in _EDITOR_VARIABLE.finditer(text))
    return References(tuple(missing), tuple(inputs), tuple(editor))


def resolve(value: Any, environ: Mapping[str, str]) -> Any:
    """Replace every {env:VAR} reference in the strings of a parsed value; the result is not resolved again.

    Only for values without problems (`find_references`); what is not a string stays as it is.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: environ.get(match["variable"]) or match["default"] or "", value)
    if isinstance(value, dict):
        return {key: resolve(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, environ) for item in value]
    return value


def filled_in_values(value: Any, environ: Mapping[str, str]) -> tuple[str, ...]:
    """List the values that `resolve` takes from `environ`; a default stands in the file and is not among them."""
    names = dict.fromkeys(match["variable"] for text in _strings(value) for match in _REFERENCE.finditer(text))
    return tuple(environ[name] for name in names if name and environ.get(name))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _strings(item)]
