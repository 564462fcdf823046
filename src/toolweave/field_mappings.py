"""Read where fields go: `path.id`, `query.q`, `header.X-Trace`, `body.user.name`, and JSONPaths into answers (W-01).

JSONPath is RFC 9535. In a body only names and indexes are taken: `body.user.name`, `body.$['first name']`,
`body.$.lines[0].sku`; `body.$` is the whole body. Paths into answers may be any without regular expressions, whose
filters look at names and indexes only: what a path costs must not be for an API's answer to decide.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.filter import FilterQuery, walk
from jsonpath.function_extensions import Length
from jsonpath.selectors import Filter, IndexSelector, NameSelector
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

Part = Literal["path", "query", "header", "body"]
LONGEST_PATH = 500
MOST_ITEMS = 100
"""How long a list in a body can get by its indexes: a place such as `body.$[99999999]` would fill the memory."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLACE = re.compile(r"(?P<part>path|query|header|body)\.(?P<name>.+)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names that mean something else than a field to the languages APIs are written in, or that no text can hold.
_SPECIAL_NAME = re.compile(r"__.*__|.*[\ud800-\udfff].*", re.DOTALL)
_UNREADABLE = (JSONPathError, ValueError, ArithmeticError, RecursionError, AssertionError)

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a request: a part of it, and the name or, in a body, the JSONPath there."""

    part: Part
    name: str

    def __str__(self) -> str:
        return f"{self.part}.{self.name}"

    @property
    def steps(self) -> Steps:
        """Give the names and indexes that lead there from the body's root; none for the whole body."""
        return _body_steps(self.name) if self.part == "body" else (self.name,)


def read_place(value: Any) -> Any:
    """Read `<part>.<name>`; raises ValueError."""
    if isinstance(value, Place):
        return value
    found = _PLACE.fullmatch(value) if isinstance(value, str) and len(value) <= LONGEST_PATH else None
    if found is None:
        raise ValueError("a mapping must be path.<name>, query.<name>, header.<name> or body.<JSONPath>")
    part: Part = found["part"]  # type: ignore[assignment]
    return _checked(part, found["name"])


def _checked(part: Part, name: str) -> Place:
    if part == "header" and not HEADER_NAME.fullmatch(name):
        raise ValueError("the name of a header may hold letters, digits and hyphens only")
    if part == "body":
        _body_steps(name)
    elif not name.isprintable():
        raise ValueError("the name of a parameter may hold no control characters")
    return Place(part, name)


def body_place(*steps: str | int) -> Place:
    """Give the place in a body that names and indexes lead to; raises ValueError for names that no body may hold."""
    return _checked("body", "$" + "".join(f"[{step}]" if isinstance(step, int) else _quoted(step) for step in steps))


def _quoted(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


@lru_cache(maxsize=4_096)
def _body_steps(name: str) -> Steps:
    """Read `user.name` or `$.user.name`; raises ValueError."""
    path = _compiled(name if name.startswith("$") else f"$.{name}")
    if not path.singular_query():
        raise ValueError("a place in a body is made of names and indexes only, such as body.user.name or body.$.ids[0]")
    selectors = [segment.selectors[0] for segment in path.segments]
    steps = tuple(
        selector.name if isinstance(selector, NameSelector) else selector.index
        for selector in selectors
        if isinstance(selector, NameSelector | IndexSelector)
    )
    if any(isinstance(step, int) and not 0 <= step < MOST_ITEMS for step in steps):
        raise ValueError(f"an index in a body is between 0 and {MOST_ITEMS - 1}")
    if any(isinstance(step, str) and _SPECIAL_NAME.fullmatch(step) for step in steps):
        raise ValueError("a name in a body may not begin and end with __, nor hold half a character")
    return steps


def colliding_places(places: Mapping[str, Place]) -> str | None:
    """Say which of the places of fields cannot be filled together: the same twice, or one inside another."""
    taken: dict[tuple[str, Steps], str] = {}
    inner: dict[Steps, str | int] = {}
    for name, place in places.items():
        steps = (place.name.lower(),) if place.part == "header" else place.steps
        if (other := taken.setdefault((place.part, steps), name)) != name:
            return f"the fields {other} and {name} both go to {place}"
        if place.part == "body":
            for depth, step in enumerate(steps):
                if type(inner.setdefault(steps[:depth], step)) is not type(step):
                    return f"{place} and the other places would make the same thing a list and an object"
    nested = next((name for (part, steps), name in taken.items() if part == "body" and steps in inner), None)
    return None if nested is None else f"{places[nested]} of {nested} holds the place of another field"


@lru_cache(maxsize=4_096)
def answer_path(text: str) -> JSONPath:
    """Read and check a JSONPath into an answer; raises ValueError."""
    path = _compiled(text)
    filters = [selector for segment in path.segments for selector in segment.selectors if isinstance(selector, Filter)]
    queries = [part for found in filters for part in walk(found.expression) if isinstance(part, FilterQuery)]
    if not all(query.path.singular_query() for query in queries):
        raise ValueError("a filter of a JSONPath may use names and indexes only, such as $.items[?@.price < 10].id")
    return path


def checked_path(value: str) -> str:
    """Check a JSONPath; raises ValueError."""
    answer_path(value)
    return value


def _compiled(text: str) -> JSONPath:
    if not text.startswith("$"):
        raise ValueError("a JSONPath begins with $, such as $.data.items[*].id")
    try:
        path = _environment().compile(text)
    except _UNREADABLE as error:
        reason = error.message if isinstance(error, JSONPathError) else "it has a number that cannot be read"
        raise ValueError(f"the JSONPath {text[:60]!r} cannot be read: {reason}") from None
    if not isinstance(path, JSONPath):
        raise ValueError("a JSONPath cannot be joined with another one")  # noqa: TRY004 - pydantic takes ValueErrors
    return path


class _Environment(JSONPathEnvironment):
    """RFC 9535 without its functions on regular expressions, whose time an answer could make endless."""

    def setup_function_extensions(self) -> None:
        self.function_extensions["length"] = Length()


@cache
def _environment() -> JSONPathEnvironment:
    return _Environment(strict=True)


RequestPlace = Annotated[
    Place,
    BeforeValidator(read_place),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^(path|query|header|body)\..", "maxLength": LONGEST_PATH}),
]
ResponsePath = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH), AfterValidator(checked_path)]
