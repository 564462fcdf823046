"""Read configuration files, and describe each mistake by its line and kind, never by its value."""

import difflib
import errno
import os
import re
import select
import stat
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, get_args

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolweave.errors import ConfigError, StageFailed

MAX_CONFIG_BYTES = 262_144
PIPE_TIMEOUT_S = 10.0
"""Time limit for the writer of a pipe, such as a shell's `<(command)`."""
# Without it, opening a named pipe would block until another process opens it for writing.
_NON_BLOCKING = getattr(os, "O_NONBLOCK", 0)
JsonPath = tuple[str | int, ...]
InputModel = TypeVar("InputModel", bound=BaseModel)
MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True, repr=False)
class ConfigDocument:
    """A parsed document: its value, and the line (from 1) of each key or item by path."""

    value: Any
    lines: Mapping[JsonPath, int]
    source: str

    def value_at(self, path: JsonPath) -> Any:
        """Return the value at `path`, or None."""
        value = self.value
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def locate(self, path: JsonPath) -> str:
        """Return `file:line` of `path` or its nearest parent; only the source if there was no text."""
        if not self.lines:
            return self.source
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.source}:{self.lines.get(path, 1)}"


def read_config_text(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> str:
    """Read a UTF-8 file.

    Raises:
        ConfigError: the file is absent, unreadable, too large or not UTF-8, or a pipe that times out; names file, line
            and fix.
    """
    source = str(path)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NON_BLOCKING)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(max_bytes + 1) if regular else _read_pipe(file)
    except FileNotFoundError:
        raise ConfigError("the file does not exist.", source=source, fix="Create it or correct the path.") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"cannot be read ({reason}).", source=source, fix="Make it a readable file.") from None
    if len(data) > max_bytes:
        size = f"{max_bytes // 1024} KiB"
        raise ConfigError(f"is larger than {size}.", source=source, fix="Point to a configuration file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text.", source=f"{source}:{line}", fix="Save it as UTF-8.") from None


def _read_pipe(file: IO[bytes]) -> bytes:
    """Read a pipe until its writers close it.

    Raises:
        TimeoutError: they did not within PIPE_TIMEOUT_S; it is an OSError.
    """
    data, deadline = b"", time.monotonic() + PIPE_TIMEOUT_S
    while len(data) <= MAX_CONFIG_BYTES:
        ready, _, _ = select.select([file], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, f"the pipe was not closed within {PIPE_TIMEOUT_S:g} s")
        part = os.read(file.fileno(), MAX_CONFIG_BYTES)
        if not part:
            break
        data += part
    return data


# A wrong file may contain anything in place of keys, such as passwords: only plain names are shown.
_KEY_NAME = re.compile(r"[\w$.-]{1,64}")


def unknown_keys(document: ConfigDocument, path: JsonPath, known: Collection[str], *, owner: str = "") -> list[str]:
    """Return one warning for each key of the object at `path` that is not in `known`; none if it is not an object.

    `owner` precedes the key in a warning, such as "server 'git': ". Warnings show no values.
    """
    members = document.value_at(path)
    unknown = [key for key in members if key not in known] if isinstance(members, dict) else []
    warnings = []
    for key in unknown:
        name = f"{key!r} " if _KEY_NAME.fullmatch(key) else ""
        nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
        warnings.append(f"{document.locate((*path, key))}: {owner}unknown key {name}is ignored{hint}")
    return warnings


def unknown_fields(
    document: ConfigDocument,
    path: JsonPath,
    model: type[BaseModel],
    *,
    owner: str = "",
    inside: JsonPath = (),
    known: Collection[str] = (),
) -> list[str]:
    """Return one warning for each key that is no field of `model` or of a nested model.

    `path` leads to the value of the outermost model, which `owner` names; `inside` leads from there to the value of
    `model`. `known` are keys without a field for which the caller has its own warnings.
    """
    names = {*model.model_fields, *known}
    for field in model.model_fields.values():
        if isinstance(field.validation_alias, AliasChoices):
            names |= {str(choice) for choice in field.validation_alias.choices}
    prefix = f"{format_path(inside)}: " if inside else ""
    warnings = unknown_keys(document, (*path, *inside), names, owner=f"{owner}{prefix}")
    value = document.value_at((*path, *inside))
    for name, item in value.items() if isinstance(value, dict) else ():
        kind = model.model_fields[name].annotation if name in model.model_fields else None
        for part in (kind, *get_args(kind)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                for step in [(name, place) for place in range(len(item))] if isinstance(item, list) else [(name,)]:
                    warnings += unknown_fields(document, path, part, owner=owner, inside=(*inside, *step))
    return warnings


_EXPECTATIONS = {
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    "finite_number": "must be a finite number",
    "int_parsing_size": "must be a smaller number",
    "string_type": "must be a string",
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "must be an object"),
    **dict.fromkeys(("missing", "missing_argument"), "is required"),
    "extra_forbidden": "is not known",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must hold {min_length} or more",
    "too_long": "must hold {max_length} or fewer",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have {max_length} or fewer characters",
}


def problems_in(error: ValidationError) -> list[tuple[JsonPath, str]]:
    """Return (path, expectation) of each problem, in the order of the fields."""
    details = error.errors(include_url=False, include_input=False)
    return [(detail["loc"], problem_text(detail)) for detail in details]


def validate_graph_input(kind: type[InputModel], state: Mapping[str, Any], refusal: str) -> InputModel:
    """Validate the input of a graph, which LangGraph does not; null counts as absent.

    Raises:
        StageFailed: the input is invalid; the text is `refusal`, the fields and what was expected.
    """
    try:
        return kind.model_validate({name: state[name] for name in kind.model_fields if state.get(name) is not None})
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, place))} {problem}" for place, problem in problems_in(error)[:MAX_PROBLEMS]]
        raise StageFailed(f"{refusal}: {'; '.join(problems)}.") from None


def format_path(location: JsonPath) -> str:
    """Format a path inside a value as in code: args[0], env.NAME."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location if step != "[key]"]
    return "".join(steps).removeprefix(".")


def problem_text(detail: ErrorDetails) -> str:
    """Return what one problem's field must be; the text of a ValueError is used unchanged."""
    kind = detail["type"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in _EXPECTATIONS:
        return _EXPECTATIONS[kind].format(**detail.get("ctx", {}))
    return f"is wrong: {detail['msg']}"
