"""Read the text of a configuration file, and name the place and the kind of each mistake in it without its value."""

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
from typing import IO, Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolweave.errors import ConfigError

MAX_BYTES = 262_144
PATIENCE_S = 10.0
"""How long what writes into a pipe may take; a shell makes one of `<(command)`."""
# Else the opening of a named pipe would wait for ever for somebody who writes into it.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
JsonPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ConfigDocument:
    """A parsed document: its value and the line (from 1) where each key or item starts, by path."""

    value: Any
    lines: Mapping[JsonPath, int]
    source: str

    def place(self, path: JsonPath) -> str:
        """Name file and line of `path`, or of its nearest parent; what was never text has no lines."""
        if not self.lines:
            return self.source
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.source}:{self.lines.get(path, 1)}"


def configuration_text(path: Path) -> str:
    """Read a file of UTF-8.

    Raises:
        ConfigError: the file is absent, unreadable, over 256 KiB or not UTF-8, or a pipe that nobody writes into; names
            file, line and fix.
    """
    source = str(path)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_BYTES + 1) if regular else _from_pipe(file)
    except FileNotFoundError:
        raise ConfigError("the file does not exist.", source=source, fix="Create it or correct the path.") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"cannot be read ({reason}).", source=source, fix="Make it a readable file.") from None
    if len(data) > MAX_BYTES:
        raise ConfigError("is larger than 256 KiB.", source=source, fix="Point to a configuration file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text.", source=f"{source}:{line}", fix="Save it as UTF-8.") from None


def _from_pipe(file: IO[bytes]) -> bytes:
    """Read what is written into a pipe until its writers have ended.

    Raises:
        TimeoutError: they have not within PATIENCE_S; an OSError.
    """
    data, patience = b"", time.monotonic() + PATIENCE_S
    while len(data) <= MAX_BYTES:
        ready, _, _ = select.select([file], [], [], max(patience - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, f"a pipe whose end did not come within {PATIENCE_S:g} s")
        part = os.read(file.fileno(), MAX_BYTES)
        if not part:
            break
        data += part
    return data


# A file that is none of ours may hold anything where keys are expected, such as passwords: only names are shown.
_NAME = re.compile(r"[\w$.-]{1,64}")


def ignored_keys(document: ConfigDocument, path: JsonPath, known: Collection[str], *, owner: str = "") -> list[str]:
    """Write one warning for each key of the object at `path` that is not in `known`; none if there is no object.

    `owner` is put before the key, such as "server 'git': ". No value is shown.
    """
    members = document.value
    for step in path:
        members = _member(members, step)
    unknown = [key for key in members if key not in known] if isinstance(members, dict) else []
    return [
        f"{document.place((*path, key))}: {owner}unknown key {_shown(key)}is ignored{_nearest(key, known)}"
        for key in unknown
    ]


def _shown(key: str) -> str:
    return f"{key!r} " if _NAME.fullmatch(key) else ""


def _member(value: Any, step: str | int) -> Any:
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None


def _nearest(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


Location = tuple[int | str, ...]
_OWN_WORDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "int_parsing_size": "must be a smaller number",
    "string_type": "must be a string",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "missing": "is required",
    "extra_forbidden": "is not known",
}
_WITH_BOUND = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must hold {min_length} or more",
    "string_too_short": "must have {min_length} or more characters",
}


def sentences(error: ValidationError) -> list[tuple[Location, str]]:
    """List (location, what was expected) for each problem, in the order of the fields."""
    details = error.errors(include_url=False, include_input=False)
    return [(detail["loc"], _expectation(detail)) for detail in details]


def shown_path(location: Location) -> str:
    """Write a path inside a value as one would in code: args[0], env.NAME."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location if step != "[key]"]
    return "".join(steps).removeprefix(".")


def _expectation(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in _WITH_BOUND:
        return _WITH_BOUND[kind].format(**detail["ctx"])
    return _OWN_WORDS.get(kind, f"is wrong: {detail['msg']}")
