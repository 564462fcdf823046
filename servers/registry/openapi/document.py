"""Parse an OpenAPI document, JSON or YAML, to plain JSON values of a bounded size.

The values can be stored, sent and traversed, whatever the source: keys are text, numbers are finite, and no value
contains itself.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import takewhile
from typing import Any

import yaml

from toolweave.errors import DocumentRefused

MAX_DOCUMENT_BYTES = 10 * 1024 * 1024
MAX_VALUES = 1_000_000
MAX_DEPTH = 100
_UNSTORABLE_CHARS = re.compile("[\x00\ud800-\udfff]")
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


def to_plain_json(value: Any) -> Any:
    """Copy a value to plain JSON values.

    Raises:
        DocumentRefused: it has too many parts, is nested too deeply, or contains values that JSON does not have.
    """
    return _JsonCopier().copy(value, MAX_DEPTH)


class _JsonCopier:
    def __init__(self) -> None:
        self._values_left = MAX_VALUES

    def copy(self, value: Any, levels: int) -> Any:
        self._values_left -= 1
        if self._values_left < 0:
            raise DocumentRefused(
                f"The document has more than {MAX_VALUES:,} values, aliases counted as often as used."
            )
        if levels < 0:
            raise DocumentRefused(f"The document is nested more than {MAX_DEPTH} levels deep.")
        match value:
            case str():
                return replace_unstorable(value)
            case bool() | None:
                return value
            case int() | float():
                return _json_number(value)
            case Mapping():
                return {_json_key(key): self.copy(inner, levels - 1) for key, inner in value.items()}
            case list() | tuple():
                return [self.copy(inner, levels - 1) for inner in value]
            case date():
                return value.isoformat()
        raise DocumentRefused(f"The document holds a value of type {type(value).__name__}, which JSON does not have.")


def replace_unstorable(text: str) -> str:
    """Replace the characters that databases and UTF-8 refuse: NUL and lone surrogates."""
    return _UNSTORABLE_CHARS.sub("\N{REPLACEMENT CHARACTER}", text)


def _json_key(key: Any) -> str:
    match key:
        case str():
            return replace_unstorable(key)
        case bool() | None:
            pass
        case int() | float():
            return str(key)
    raise DocumentRefused(f"The document has a key of type {type(key).__name__}; keys must be text.")


def _json_number(value: Any) -> int | float:
    # JSON encoders treat larger integers differently, but floats equally.
    try:
        number: int | float = value if isinstance(value, float) or _MIN_INT <= value <= _MAX_INT else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DocumentRefused("The document holds a number that is not finite.")
    return number


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD_TAG = "tag:yaml.org,2002:"
_MERGE_KEY = "<<"
_MAX_NUMBER_LENGTH = 300
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_FORMS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)


def load_yaml(text: str) -> Any:
    """Parse one YAML document. An alias is a reference to the same object, which may therefore contain itself.

    Raises:
        DocumentRefused: the text is not YAML, is nested too deeply, has a key twice or a type that JSON does not have.
    """
    try:
        return _YamlReader(text).read_document()
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise DocumentRefused(f"The document is not valid YAML: {error.problem or error.context}{line}.") from None
    except yaml.YAMLError:
        raise DocumentRefused("The document is not valid YAML: it holds characters that YAML does not allow.") from None


class _YamlReader:
    """Build a document from its parse events as YAML 1.2, because PyYAML's own loaders read YAML 1.1."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, Any] = {}
        self._values_left = MAX_VALUES

    def read_document(self) -> Any:
        found: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                if found:
                    raise DocumentRefused("There is more than one YAML document; send one.")
                found.append(self._read_value(event, MAX_DEPTH))
        return found[0] if found else None

    def _count_values(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise DocumentRefused(f"The document has more than {MAX_VALUES:,} values.")

    def _read_value(self, event: Any, levels: int) -> Any:
        self._count_values(1)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise DocumentRefused(f"The YAML alias *{(event.anchor or '')[:60]} has no anchor.")
            return self._anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar_value(event.value, event.tag, event.implicit[0])
        else:
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._anchors[event.anchor] = value
        if isinstance(event, yaml.CollectionStartEvent):
            if levels == 0:
                raise DocumentRefused(f"The document is nested more than {MAX_DEPTH} levels deep.")
            if event.tag and event.tag != "!":
                _yaml_type(event.tag)
            inside = takewhile(lambda inner: not isinstance(inner, yaml.CollectionEndEvent), self._events)
            if isinstance(value, dict):
                self._read_object(value, inside, levels - 1)
            else:
                value.extend(self._read_value(inner, levels - 1) for inner in inside)
        return value

    def _read_object(self, values: dict[str, Any], inside: Iterable[Any], levels: int) -> None:
        merged: list[Any] = []
        for event in inside:
            # A key is always its source text, whatever type it looks like.
            key = event.value if isinstance(event, yaml.ScalarEvent) else self._read_value(event, levels)
            line = f"(line {event.start_mark.line + 1})"
            if not isinstance(key, str):
                raise DocumentRefused(f"A key is a list, an object, or an alias of a value that is not text {line}.")
            if key in values:
                raise DocumentRefused(f"The key {key[:60]!r} is there twice in one object {line}.")
            value = self._read_value(next(self._events), levels)
            if key == _MERGE_KEY and isinstance(value, dict | list):
                merged += value if isinstance(value, list) else [value]
            else:
                values[key] = value
        for source in merged:
            if not isinstance(source, dict):
                raise DocumentRefused("A YAML merge key (<<) takes objects only.")
            self._count_values(len(source))
            for key, value in list(source.items()):
                values.setdefault(key, value)


def _yaml_type(tag: str) -> str:
    kind = tag.removeprefix(_STANDARD_TAG)
    if kind == tag or kind.startswith("python/"):
        raise DocumentRefused(f"The document holds a value of the YAML type {tag[:60]}, which JSON does not have.")
    return kind


def _scalar_value(text: str, tag: str | None, is_plain: bool) -> Any:
    if tag and tag != "!":  # "!" alone marks a text
        is_plain = _yaml_type(tag) not in ("str", "timestamp", "binary")
    if not is_plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) <= _MAX_NUMBER_LENGTH:
        for pattern, number in _NUMBER_FORMS:
            if pattern.fullmatch(text):
                return number(text)
    return text


def read_document(content: bytes | str | Mapping[str, Any]) -> dict[str, Any]:
    """Parse a document of OpenAPI 3.0, 3.1 or 3.2 to plain JSON values, without validating its contents.

    The largest ones take a few seconds of CPU: do not call it on an event loop.

    Raises:
        DocumentRefused: it is too large, cannot be parsed, or is not an OpenAPI 3 document.
    """
    document = to_plain_json(content if isinstance(content, Mapping) else _parse(_decode(content)))
    if not isinstance(document, dict):
        raise DocumentRefused("An OpenAPI document must be an object at its top level.")
    if "swagger" in document and "openapi" not in document:
        raise DocumentRefused(
            "This is a Swagger 2.0 document; convert it to OpenAPI 3 first, for instance with the swagger2openapi"
            " program or editor.swagger.io (Edit, Convert to OpenAPI 3), and import the result."
        )
    version = str(document.get("openapi", ""))
    if not version.startswith(("3.0", "3.1", "3.2")):
        problem = f"its `openapi` is {version[:20]!r}" if version else "it has no `openapi`"
        raise DocumentRefused(f"This is not an OpenAPI document of version 3.0 or 3.1: {problem}.")
    if not isinstance(document.get("paths", {}), dict):
        raise DocumentRefused("The `paths` of an OpenAPI document must be an object.")
    return document


def _decode(content: bytes | str) -> str:
    if len(content) > MAX_DOCUMENT_BYTES:
        raise DocumentRefused(f"The document is larger than {MAX_DOCUMENT_BYTES // (1024 * 1024)} MiB.")
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentRefused("The document is not text in UTF-8.") from None


def _parse(text: str) -> Any:
    start = text.lstrip()
    if not start:
        raise DocumentRefused("The document is empty.")
    if not start.startswith(("{", "[")):
        return load_yaml(text)
    if sum(map(text.count, ",[{")) > MAX_VALUES:  # The parser holds the GIL until it returns.
        raise DocumentRefused(f"The document has more than {MAX_VALUES:,} commas and brackets.")
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise DocumentRefused(f"The document is not valid JSON: {error.msg} (line {error.lineno}).") from None
    except RecursionError:
        raise DocumentRefused("The document is nested too deeply.") from None
    except ValueError:  # a number of thousands of digits
        raise DocumentRefused("The document holds a number that is too long.") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise DocumentRefused(f"The key {twice[:60]!r} is there twice in one object.")
    return values


def _refuse_constant(text: str) -> Any:
    raise DocumentRefused(f"The document holds {text}, which is not JSON.")
