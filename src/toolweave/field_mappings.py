"""Read where fields go: `path.id`, `query.q`, `header.X-Trace`, `body.user.name`, and JSONPaths into answers (W-01)."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

Part = Literal["path", "query", "header", "body"]
_PLACE = re.compile(r"(?P<part>path|query|header|body)\.(?P<name>.+)", re.DOTALL)
LONGEST_PATH = 500


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a request: a part of it, and the name or, in a body, the JSONPath there."""

    part: Part
    name: str

    def __str__(self) -> str:
        return f"{self.part}.{self.name}"


def read_place(value: Any) -> Any:
    """Read `<part>.<name>`; raises ValueError."""
    if isinstance(value, Place):
        return value
    found = _PLACE.fullmatch(value) if isinstance(value, str) and len(value) <= LONGEST_PATH else None
    if found is None:
        raise ValueError("a mapping must be path.<name>, query.<name>, header.<name> or body.<JSONPath>")
    part: Part = found["part"]  # type: ignore[assignment]
    return Place(part, found["name"])


def checked_path(value: str) -> str:
    """Check a JSONPath; raises ValueError."""
    return value


RequestPlace = Annotated[Place, BeforeValidator(read_place), PlainSerializer(str, return_type=str)]
ResponsePath = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH), AfterValidator(checked_path)]
