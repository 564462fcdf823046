"""Declare the parameters of the todo tools: what a model reads about them and what is refused (T-13, C-07)."""

import unicodedata
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from toolweave.servers.todo.models import Priority, Status
from toolweave.servers.tool_declaration import WHOLE_NUMBER

# The largest whole number that every JSON reader keeps exactly; SQLite and PostgreSQL hold it too.
_LARGEST_ID = 2**53 - 1
_LINE_BREAKS = "\n\t"


def single_line(text: str) -> str:
    """Refuse control characters, line breaks among them.

    Raises:
        ValueError: there is one.
    """
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("a single line of text without control characters")
    return text


def several_lines(text: str) -> str:
    """Refuse control characters but line breaks and tabs; line breaks become plain line feeds.

    Raises:
        ValueError: there is another one.
    """
    text = text.replace("\r\n", "\n")
    if any(unicodedata.category(character) == "Cc" and character not in _LINE_BREAKS for character in text):
        raise ValueError("text without control characters other than line breaks")
    return text


def canonical_due_date(text: str) -> str:
    """Return `YYYY-MM-DD`, or `YYYY-MM-DDTHH:MM:SSZ` for a time (UTC unless it has an offset); empty stays empty.

    In these forms the order of the texts is the order in time.

    Raises:
        ValueError: it is no ISO 8601 date or time.
    """
    if not text:
        return text
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise ValueError("an ISO 8601 date or time such as 2026-12-24 or 2026-12-24T15:00:00Z") from None
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _without_repetition(tags: list[str]) -> list[str]:
    return list(dict.fromkeys(tags))


_Line = AfterValidator(single_line)
_Tag = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50), _Line, AfterValidator(str.lower)
]
_DueDate = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=40), _Line, AfterValidator(canonical_due_date)
]

TodoId = Annotated[
    int,
    Field(strict=True, ge=1, le=_LARGEST_ID),
    WHOLE_NUMBER,
    Field(description="The todo's id, as a listing or search shows it.", examples=[7]),
]
Title = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    _Line,
    Field(description="What is to be done, in one line.", examples=["Buy milk", "Call the dentist"]),
]
Description = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=4000),
    AfterValidator(several_lines),
    Field(description="More about it, if there is more than the title says.", examples=["2 litres, oat"]),
]
PriorityLevel = Annotated[Priority, Field(description="How important it is.", examples=["high"])]
PriorityFilter = Annotated[Priority, Field(description="Only todos of this priority.", examples=["high"])]
DueDate = Annotated[
    _DueDate,
    Field(
        description="When it is due: an ISO 8601 date, or date and time (UTC unless an offset is given).",
        examples=["2026-12-24", "2026-12-24T15:00:00Z"],
    ),
]
Tags = Annotated[
    list[_Tag],
    Field(max_length=20, description="Words to group todos by.", examples=[["shopping", "home"]]),
    AfterValidator(_without_repetition),
]
NewStatus = Annotated[
    Status,
    Field(description="completed marks it done, active opens it again.", examples=["completed"]),
]
StatusFilter = Annotated[
    Literal["active", "completed", "all"],
    Field(description="Only those still to do (active), only those done (completed), or all.", examples=["active"]),
]
TagFilter = Annotated[_Tag, Field(description="Only todos with this tag.", examples=["shopping"])]
DueBefore = Annotated[
    _DueDate,
    Field(description="Only todos due before this ISO 8601 date or time.", examples=["2026-12-24"]),
]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=100),
    WHOLE_NUMBER,
    Field(description="How many todos to return at most.", examples=[20]),
]
Cursor = Annotated[
    str,
    Field(max_length=200, description="next_cursor of the previous answer, to go on from there."),
]
Query = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    _Line,
    Field(description="Words to look for; a todo matches when it has all of them.", examples=["milk", "dentist"]),
]
