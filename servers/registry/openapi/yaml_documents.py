"""Read YAML as OpenAPI means it: JSON's types only, by the rules of YAML 1.2.

PyYAML's own loaders follow YAML 1.1, where `no` is false, `12:30:00` a number and `2024-01-01` a date, and `200` is no
text as a key. So PyYAML parses, and the values are put together here, without recursion and without any class.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from toolweave.errors import DocumentRefused
from toolweave.servers.registry.openapi.values import DEEPEST, MOST_VALUES

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"
_MERGE = "<<"
_LONGEST_NUMBER = 300
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)


def load_yaml(text: str) -> Any:
    """Read one YAML document; aliases give the same object again, also within itself.

    Raises:
        DocumentRefused: it is no YAML, nested too deeply, has a key twice or a type that JSON has not.
    """
    building = _Building()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            building.take(event)
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise DocumentRefused(f"The document is not valid YAML: {error.problem or error.context}{line}.") from None
    except yaml.YAMLError:
        raise DocumentRefused("The document is not valid YAML: it holds characters that YAML does not allow.") from None
    return building.root


@dataclass
class _Open:
    """A collection that is being read; `key` is the one whose value comes next, `merged` what stands under `<<`."""

    values: dict[str, Any] | list[Any]
    key: str | None = None
    merged: list[Any] = field(default_factory=list)


class _Building:
    def __init__(self) -> None:
        self.root: Any = None
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._merged = 0
        self._values = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise DocumentRefused("There is more than one YAML document; send one.")
            case yaml.MappingStartEvent():
                self._begin({}, event)
            case yaml.SequenceStartEvent():
                self._begin([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event.anchor)

    def _begin(self, values: dict[str, Any] | list[Any], event: Any) -> None:
        if len(self._open) >= DEEPEST:
            raise DocumentRefused(f"The document is nested more than {DEEPEST} levels deep.")
        if self._wants_key():
            raise DocumentRefused(f"A key is a list or an object (line {event.start_mark.line + 1}).")
        if event.tag and event.tag != "!":
            _kind(event.tag)
        if event.anchor:
            self._anchors[event.anchor] = values
        self._put(values)
        self._open.append(_Open(values))

    def _end(self) -> None:
        ended = self._open.pop()
        if isinstance(ended.values, dict):
            for value in ended.merged:
                self._merge(ended.values, value)

    def _scalar(self, event: Any) -> None:
        is_plain = event.implicit[0]
        if self._wants_key():
            value: Any = event.value
            self._take_key(value, event.start_mark.line + 1)
        else:
            value = _value(event.value, event.tag, is_plain)
            self._put(value)
        if event.anchor:
            self._anchors[event.anchor] = value

    def _alias(self, anchor: str | None) -> None:
        if anchor is None or anchor not in self._anchors:
            raise DocumentRefused(f"The YAML alias *{(anchor or '')[:60]} stands for nothing.")
        value = self._anchors[anchor]
        if not self._wants_key():
            self._put(value)
        elif isinstance(value, str):
            self._take_key(value, None)
        else:
            raise DocumentRefused(f"The YAML alias *{anchor[:60]} is used as a key and is no text.")

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].values, dict) and self._open[-1].key is None

    def _take_key(self, key: str, line: int | None) -> None:
        around = self._open[-1]
        if key in around.values:
            where = f" (line {line})" if line else ""
            raise DocumentRefused(f"The key {key[:60]!r} is there twice in one object{where}.")
        around.key = key

    def _put(self, value: Any) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise DocumentRefused(f"The document has more than {MOST_VALUES:,} values.")
        if not self._open:
            self.root = value
            return
        around = self._open[-1]
        if isinstance(around.values, list):
            around.values.append(value)
        elif around.key is not None:
            if around.key == _MERGE and isinstance(value, dict | list):
                around.merged.append(value)
            else:
                around.values[around.key] = value
            around.key = None

    def _merge(self, values: dict[str, Any], value: Any) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise DocumentRefused("A YAML merge key (<<) takes objects only.")
            self._merged += len(source)
            if self._merged > MOST_VALUES:
                raise DocumentRefused(f"The document merges more than {MOST_VALUES:,} values by YAML merge keys.")
            for key, inner in list(source.items()):
                values.setdefault(key, inner)


def _kind(tag: str) -> str:
    kind = tag.removeprefix(_STANDARD)
    if kind == tag or kind.startswith("python/"):
        raise DocumentRefused(f"The document holds a value of the YAML type {tag[:60]}, which JSON has not.")
    return kind


def _value(text: str, tag: str | None, is_plain: bool) -> Any:
    if tag and tag != "!":  # "!" alone says that it is a text
        is_plain = _kind(tag) not in ("str", "timestamp", "binary")
    if not is_plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) <= _LONGEST_NUMBER:
        for pattern, number in _NUMBERS:
            if pattern.fullmatch(text):
                return number(text)
    return text
