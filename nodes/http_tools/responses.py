"""Parse API responses without credentials, and map them to tool outputs (W-06, W-08).

Checkpoints and streams accept neither integers of more than 64 bits, nor NaN, nor lone surrogates, nor very deep
nesting, and millions of values block the event loop. Here such integers become texts, NaN and infinities null, lone
surrogates a question mark; a body with too deep nesting or too many values stays text.

Some APIs repeat the request, above all in errors. Sent credentials are hidden in the forms that URLs, JSON, HTML and
base64 give them, and in mixtures, as encoders differ in what they encode.
"""

import json
import math
import re
from base64 import b64encode
from codecs import lookup
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from html import escape
from http import HTTPStatus
from itertools import accumulate, islice, takewhile
from typing import Any, NamedTuple

from jsonpath import JSONPathMatch
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import IndexSelector, JSONPathSelector, NameSelector

from toolweave.nodes.http_tools.requests import HTTPResponseSpec
from toolweave.outbound import OutboundResponse
from toolweave.redact import HIDDEN, KnownSecrets, encoded_forms, is_secret_name, redact_text, sort_longest_first
from toolweave.tool_config import ToolConfig, parse_response_path

# Shorter secrets could be part of any word; they are hidden only as whole words.
MIN_EMBEDDED_LENGTH = 8
# Patterns for many characters with several forms take long to compile.
MAX_ENCODED_CHARS = 100
# Characters with several forms; a run of backslashes counts as one.
_ENCODABLE = re.compile(r"\\+|[^A-Za-z0-9_-]")


class EchoedSecrets(KnownSecrets):
    """The credentials of one request, to hide where a response repeats them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sort_longest_first(secrets, 1)
        super().__init__([*_patterns(self._secrets), *(form for one in self._secrets for form in _base64_forms(one))])

    def hide_bytes(self, data: bytes) -> bytes:
        """Return bytes without the secrets."""
        text = data.decode("utf-8", "surrogateescape")
        return self.hide(text).encode("utf-8", "surrogateescape") if self.occur_in(text) else data

    def hide_number(self, number: float) -> float | str:
        """Return a number, or the placeholder if it is a secret."""
        text = str(number)
        return HIDDEN if text in self._secrets else number

    def hide_in_json(self, value: Any) -> Any:
        """Return JSON values without the secrets, also in numbers, and without lone surrogates."""
        if isinstance(value, str):
            return self.hide(_replace_surrogates(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.hide_number(value)
        return super().hide_in_json(value)


def _patterns(secrets: Iterable[str]) -> Iterator[str | re.Pattern[str]]:
    remaining = MAX_ENCODED_CHARS
    for secret in secrets:
        whole_word = len(secret) < MIN_EMBEDDED_LENGTH
        forms = [re.escape(form) for form in encoded_forms(secret)] if whole_word else []
        if 0 < (encoded := len(_ENCODABLE.findall(secret))) <= remaining:
            remaining -= encoded
            forms.append(_ENCODABLE.sub(_encoded_pattern, secret))
        yield from (re.compile(rf"(?<![A-Za-z0-9]){form}(?![A-Za-z0-9])" if whole_word else form) for form in forms)
        if not whole_word:
            yield from encoded_forms(secret)


def _encoded_pattern(found: re.Match[str]) -> str:
    """Return a pattern for a character as it is, percent-encoded, or escaped for JSON or HTML.

    Every repetition is bounded, and those of backslashes are possessive: long runs would take quadratic time.
    """
    character = found[0][0]
    percent = "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    units = character.encode("utf-16-be", "surrogatepass")
    unicode = "".join(rf"\\{{1,8}}+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    html = rf"&#(?:0{{0,8}}{ord(character)}|x0{{0,8}}{ord(character):x});"
    plain = re.escape(character)
    forms = [unicode, percent, html, re.escape(escape(character)), rf"\\{{1,8}}+{plain}", plain]
    forms += [r"\+"] if character == " " else []
    # Duplicates would make each run of a character backtrack through every combination.
    return f"(?i:{'|'.join(dict.fromkeys(forms))})" + ("{1,16}+" if character == "\\" else "")


def _base64_forms(secret: str) -> Iterator[str]:
    """Yield the base64 of a secret inside any text, without the outer characters that depend on that text."""
    data = secret.encode("utf-8", "surrogateescape")
    for before in range(3) if len(data) >= MIN_EMBEDDED_LENGTH else ():
        end = (before + len(data)) * 8 // 6
        form = b64encode(bytes(before) + data).decode()[(before * 8 + 5) // 6 : end]
        yield from dict.fromkeys((form, form.replace("+", "-").replace("/", "_")))


MAX_DEPTH = 64
MAX_VALUES = 200_000
_MAX_INTEGER_CHARS = len("-9223372036854775808")
_MAX_TYPE_CHARS = 200
_CHARSETS = ("ascii", "utf-8", "utf-16", "utf-32", "iso8859", "cp", "koi8", "shift_jis", "euc", "gb", "big5")
_TEXT_TYPES = ("application/xml", "application/javascript", "application/x-www-form-urlencoded", "application/yaml")


class DecodedBody(NamedTuple):
    """A body; `encoding` is "base64" for bytes, None for JSON and text."""

    value: Any
    encoding: str | None = None


def decode_body(data: bytes, content_type: str, echoes: EchoedSecrets) -> DecodedBody:
    """Decode a body as JSON, text or base64, by its content before its content type, and hide the secrets in it."""
    if not data:
        return DecodedBody(None)
    kind, charset = _content_type(content_type)
    if kind.endswith(("/json", "+json")) or data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        try:
            return DecodedBody(_decode_json(data, charset, echoes))
        except (ValueError, RecursionError):
            pass  # it is text
    text = _decode_text(data, charset, certain=kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXT_TYPES)
    if text is None:
        return DecodedBody(b64encode(echoes.hide_bytes(data)).decode(), "base64")
    return DecodedBody(echoes.hide(text))


def _content_type(content_type: str) -> tuple[str, str | None]:
    header = Message()
    header["content-type"] = content_type[:_MAX_TYPE_CHARS]
    charset = header.get_param("charset")
    return header.get_content_type().lower() if content_type else "", charset if isinstance(charset, str) else None


def _decode_json(data: bytes, charset: str | None, echoes: EchoedSecrets) -> Any:
    # Parsing millions of values would block other runs. The factor 2 allows for commas and brackets in texts.
    if sum(map(data.count, (b",", b"[", b"{"))) > 2 * MAX_VALUES:
        raise ValueError("it has too many values")
    text = data.decode(_known_charset(charset) or json.detect_encoding(data)).removeprefix("\ufeff")
    value = json.loads(text, parse_int=_parse_integer, parse_float=_parse_float, parse_constant=lambda _name: None)
    _require_storable(value)
    # Without escapes, JSON has texts unchanged.
    return echoes.hide_in_json(value) if "\\" in text or echoes.occur_in(text) else value


def _parse_integer(text: str) -> int | str:
    number = int(text) if len(text) <= _MAX_INTEGER_CHARS else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else text


def _parse_float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _require_storable(value: Any) -> None:
    level, values = [value], 0
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise ValueError("it has too many values")
        containers = [part for part in level if isinstance(part, dict | list)]
        level = [part for each in containers for part in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _decode_text(data: bytes, charset: str | None, *, certain: bool) -> str | None:
    """Decode a text; None for binary data. Only a declared text may have invalid bytes."""
    known = _known_charset(charset)
    try:
        text = data.decode(known or "utf-8-sig", "replace" if certain or known else "strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text and not certain else _replace_surrogates(text)


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _known_charset(charset: str | None) -> str | None:
    """Return a charset's codec; None for unknown ones, and for codecs that are no charsets or take quadratic time."""
    try:
        name = lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        return None
    return name if name.startswith(_CHARSETS) else None


MAX_EXCERPT_CHARS = 500


def parse_response(answer: OutboundResponse, echoes: EchoedSecrets, milliseconds: float) -> HTTPResponseSpec:
    """Parse a response; call it on a thread, because large ones take long."""
    body = decode_body(answer.body, ", ".join(answer.header_values("content-type")), echoes)
    return HTTPResponseSpec(
        status_code=answer.status,
        headers=_response_headers(answer, echoes),
        body=body.value,
        body_encoding=body.encoding,
        execution_time_ms=round(milliseconds, 3),
    )


def status_text(response: HTTPResponseSpec) -> str:
    """Return a response in one line: the status, and the start of its body."""
    try:
        phrase = f" {HTTPStatus(response.status_code).phrase}"
    except ValueError:
        phrase = ""
    excerpt = "" if response.body_encoding or response.body is None else _excerpt(response.body)
    return f"{response.status_code}{phrase}{f': {excerpt}' if excerpt else ''}"


def _excerpt(body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    printable = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * MAX_EXCERPT_CHARS]).split())
    return printable if len(printable) <= MAX_EXCERPT_CHARS else f"{printable[:MAX_EXCERPT_CHARS]}…"


def _response_headers(answer: OutboundResponse, echoes: EchoedSecrets) -> dict[str, str]:
    joined: dict[str, str] = {}
    for header, value in answer.headers:
        name, text = echoes.hide(header).lower(), _decode_header(value)
        joined[name] = f"{joined[name]}, {text}" if name in joined else text
    return {name: HIDDEN if is_secret_name(name) else redact_text(text, echoes.hide) for name, text in joined.items()}


def _decode_header(text: str) -> str:
    """Return a header decoded as UTF-8 if possible; HTTP clients decode its bytes as latin-1."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


MAX_SEARCH_STEPS = 200_000
"""Cost limit of all paths into one response together: a few tenths of a second."""
MAX_RESULTS = 10_000
_CHARS_PER_STEP = 4


class PathSearch:
    """Find the values of JSON paths in one response; all paths share its steps.

    `complete` becomes False when the response has more than could be searched or returned.
    """

    def __init__(self, answer: Any) -> None:
        self.complete = True
        self._answer = answer
        self._steps = MAX_SEARCH_STEPS

    def find(self, path: str) -> Any:
        """Return the value, or None, for a path that can match only once, and a list for any other.

        Values found before the steps ran out are returned, too.
        """
        compiled = parse_response_path(path)
        nodes: Iterable[JSONPathMatch] = [_BareMatch(self._answer, self._answer)]
        for segment in compiled.segments:
            nodes = self._select(segment, nodes)
        found = [node.obj for node in islice(nodes, MAX_RESULTS + 1)]
        if len(found) > MAX_RESULTS:
            self.complete = False
        if compiled.singular_query():
            return found[0] if found else None
        return found[:MAX_RESULTS]

    def _select(self, segment: JSONPathSegment, nodes: Iterable[JSONPathMatch]) -> Iterator[JSONPathMatch]:
        recursive = isinstance(segment, JSONPathRecursiveDescentSegment)
        weight = max(sum(map(_selector_cost, segment.selectors)), recursive)
        for node in nodes:
            for container in islice(_containers(node.obj), None if recursive else 1):
                self._steps -= len(segment.selectors) + weight * len(container)
                if self._steps < 0:
                    self.complete = False
                    return
                reached = node if container is node.obj else _BareMatch(container, self._answer)
                for selector in segment.selectors:
                    yield from selector.resolve(reached)


class _BareMatch(JSONPathMatch):
    """A match that stores neither its path nor its children: with long names they would fill the memory."""

    __slots__ = ()

    def __init__(self, value: object, answer: Any) -> None:
        super().__init__(filter_context={}, obj=value, parent=None, path="", parts=(), root=answer)

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:  # noqa: ARG002 - the name is the library's
        return _BareMatch(obj, self.root)

    def add_child(self, *children: JSONPathMatch) -> None:
        pass


def _containers(value: Any) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield every object and list in a value, each before its content, without recursion."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict | list):
            yield part
            pending.extend(reversed(part.values() if isinstance(part, dict) else part))


def _selector_cost(selector: JSONPathSelector) -> int:
    """Return a selector's cost per item: evaluating a filter takes as long as its expression."""
    if isinstance(selector, NameSelector | IndexSelector):
        return 0
    return 1 + len(str(selector)) // _CHARS_PER_STEP


MAX_OUTPUT_CHARS = 10_000_000
"""Characters of all mapped fields together; parts of a response may be mapped many times."""
_CHARS_PER_VALUE = 10
_EMPTY_STATUSES = (204, 205, 304)


@dataclass(frozen=True)
class ToolOutput:
    """The output of a call, the body or an object with the mapped fields, and warnings about it."""

    value: Any
    warnings: list[str] = field(default_factory=list)


def mapped_output(tool: ToolConfig, response: HTTPResponseSpec) -> ToolOutput:
    """Return the response body, or the values that the tool's response mappings select from it, by output field.

    A path that can match only once, of names and indexes, gives the value or null; any other path gives a list,
    possibly empty. A mismatch with the output_schema is a warning, never a failure.
    """
    paths = tool.field_mappings.response
    value, warnings = _map_fields(paths, response.body) if paths else (response.body, [])
    without_content = response.body is None and (tool.api.method == "HEAD" or response.status_code in _EMPTY_STATUSES)
    if tool.output_schema and not without_content:
        problems = tool.output_validator.problems(value)
        warnings += [f"The response does not match output_schema: {_output_problem(problem)}." for problem in problems]
    return ToolOutput(value, warnings)


def _map_fields(paths: dict[str, str], body: Any) -> tuple[dict[str, Any], list[str]]:
    search = PathSearch(body)
    found = {name: search.find(path) for name, path in paths.items()}
    warnings = []
    if not search.complete:
        warnings.append("The response is too large to be searched completely: the output lacks some of it.")
    if all(value is None or value == [] for value in found.values()):
        warnings.append("None of the tool's field mappings matches the response.")
    sizes = accumulate(map(_output_size, found.values()))
    fitting = list(takewhile(lambda size: size <= MAX_OUTPUT_CHARS, sizes))
    if cut := list(found)[len(fitting) :]:
        found |= dict.fromkeys(cut)
        warnings.append(f"The output lacks {', '.join(cut)}: the mapped fields are too large.")
    return found, warnings


def _output_size(value: Any) -> int:
    size = 0
    for part in _containers([value]):
        texts = [*part, *part.values()] if isinstance(part, dict) else part
        size += _CHARS_PER_VALUE * len(part) + sum(len(text) for text in texts if isinstance(text, str))
        if size > MAX_OUTPUT_CHARS:
            break
    return size


def _output_problem(problem: str) -> str:
    # Without a field name, the checker writes "the arguments".
    return problem.replace("the arguments", "the output", 1) if problem.startswith("the arguments ") else problem
