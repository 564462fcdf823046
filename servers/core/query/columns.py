"""Know what columns hold: what they are compared with, and how their cells are selected and shown (C-03, C-07).

What differs between databases are the fields of a `Column`: `describe` fills them in. Every value is bound; nothing of
a call becomes SQL text.
"""

import base64
import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine.interfaces import ReflectedColumn

from toolweave.servers.core.query.request import Operator, Scalar
from toolweave.servers.envelope import parse_json
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed

Expression = sa.ColumnElement[Any]
SentAs = Literal["itself", "bytes", "text", "json", "sqlite"]
Value = str | int | float | bool | bytes | Decimal | date | datetime | time | UUID

LONGEST_CELL = 10_000
CUT = " … [cut]"
# Beyond it some readers of JSON round.
_EXACT = 2**53 - 1

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_COMPARED: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "in", "is_null")
_EQUATED: tuple[Operator, ...] = ("eq", "ne", "in", "is_null")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What a column holds, what a value that it is compared with must be, and the operators that make sense for it."""

    holds: str
    expected: str
    convert: Callable[[Scalar], Value]
    operators: tuple[Operator, ...] = _COMPARED
    is_orderable: bool = True


def _integer(value: Scalar) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _number(value: Scalar) -> float:
    if isinstance(value, bool | str):
        raise TypeError
    return float(value)


def _decimal(value: Scalar) -> Decimal:
    if isinstance(value, bool) or (isinstance(value, str) and not _DECIMAL.fullmatch(value)):
        raise ValueError
    return Decimal(str(value))


def _boolean(value: Scalar) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Scalar) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _date(value: Scalar) -> date:
    return date.fromisoformat(_text(value).strip())


def _moment(value: Scalar) -> datetime:
    moment = datetime.fromisoformat(_text(value).strip())
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _time(value: Scalar) -> time:
    found = time.fromisoformat(_text(value).strip())
    if found.tzinfo:
        raise ValueError
    return found


def _uuid(value: Scalar) -> UUID:
    return UUID(_text(value))


def _bytes(value: Scalar) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _anything(value: Scalar) -> Value:
    return _integer(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _nothing(_value: Scalar) -> Value:
    raise ValueError


_ONLY_NULL = "absent: such a column can only be compared with is_null"
INTEGER = Kind("whole numbers", "a whole number of at most 64 bits", _integer)
NUMBER = Kind("numbers", "a number", _number)
DECIMAL = Kind("decimal numbers", 'a number, or one as text such as "12.50"', _decimal)
BOOLEAN = Kind("true and false", "true or false", _boolean, _EQUATED)
TEXT = Kind("text", "text", _text, (*_COMPARED, "like"))
DATE = Kind("dates", "an ISO 8601 date such as 2026-12-24", _date)
MOMENT = Kind("dates with times", "an ISO 8601 date and time such as 2026-12-24T15:00:00Z", _moment)
TIME = Kind("times of day", "an ISO 8601 time of day such as 15:00:00, without an offset", _time)
IDENTIFIER = Kind("UUIDs", "a UUID", _uuid)
BYTES = Kind("bytes", "bytes in base64", _bytes, _EQUATED, is_orderable=False)
DOCUMENT = Kind("JSON", _ONLY_NULL, _nothing, ("is_null",), is_orderable=False)
ANYTHING = Kind("anything", "text, a number, true or false", _anything, (*_COMPARED, "like"))
OTHER = Kind("values of a type that cannot be compared here", _ONLY_NULL, _nothing, ("is_null",), is_orderable=False)

_KINDS: tuple[tuple[type[sa.types.TypeEngine[Any]], Kind], ...] = (
    (sa.Enum, TEXT),
    (sa.JSON, DOCUMENT),
    (sa.ARRAY, OTHER),
    (sa.Uuid, IDENTIFIER),
    (sa.Boolean, BOOLEAN),
    (sa.Integer, INTEGER),
    (sa.Float, NUMBER),
    (sa.Numeric, DECIMAL),
    (sa.DateTime, MOMENT),
    (sa.Date, DATE),
    (sa.Time, TIME),
    (sa.LargeBinary, BYTES),
    (sa.types._Binary, BYTES),  # noqa: SLF001  what BLOB and VARBINARY have in common
    (sa.String, TEXT),
)
_READERS: Mapping[Kind, Callable[[str], datetime | time]] = {MOMENT: datetime.fromisoformat, TIME: time.fromisoformat}


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may be read.

    `type` is how values to compare it with are bound. `compared_as` says what is compared instead of the column itself:
    its "text", or what SQLite's strftime makes of it. `sent_as` says in which form the database sends its cells.
    """

    name: str
    kind: Kind
    type: sa.types.TypeEngine[Any]
    nullable: bool
    compared_as: str | None = None
    sent_as: SentAs = "itself"

    def operand(self, clause: Expression) -> Expression:
        """Return what is compared and ordered by, made of the column or of a value."""
        if self.compared_as == "text":
            return sa.cast(clause, _TEXT_TYPE)
        form = self.compared_as
        return sa.func.strftime(sa.literal(form), clause, type_=_NULL_TYPE) if form else clause

    def bound(self, value: Scalar, place: str) -> Expression:
        """Bind a value of a call that the operand is compared with.

        Raises:
            ToolFailed: it is of another kind; says which one the column holds.
        """
        try:
            converted = self.kind.convert(value)
        except (ValueError, TypeError, OverflowError):
            raise ToolFailed(INVALID_PARAMETER, f"Parameter '{place}' must be {self.kind.expected}.") from None
        if self.sent_as == "sqlite":
            return self.operand(sa.literal(_sqlite_value(converted)))
        bound = sa.literal(converted, self.type)
        # The driver has one kind of float, and 0.1 is another number in each of the two.
        return sa.cast(bound, _REAL_TYPE) if self.type is _REAL_TYPE else bound

    def selected(self, clause: Expression, most: int) -> Expression:
        """Select the column; of a long cell one character more than the `most` that are shown."""
        match self.sent_as:
            case "bytes":
                first, enough = sa.literal(1), sa.literal(most + 1)
                return sa.func.pg_catalog.substr(clause, first, enough, type_=sa.LargeBinary())
            case "text":
                return _left(clause, most)
            case "json":
                return _left(sa.func.pg_catalog.to_jsonb(clause), most)
            case "sqlite":
                return _sqlite_cut(clause, most)
        return clause

    def shown(self, value: Any, cells: "Cells") -> Any:
        """Turn what was `selected` into JSON."""
        reader = _READERS.get(self.kind)
        if not isinstance(value, str):
            is_flag = self.sent_as == "sqlite" and self.kind is BOOLEAN and value in (0, 1)
            return bool(value) if is_flag else cells.of(value)
        if self.sent_as == "json":
            read = cells.document(value)
            return _iso_text(read, reader) if reader and isinstance(read, str) else read
        if self.sent_as != "itself" and self.kind is DOCUMENT:
            return cells.document(value)
        return cells.cut_to_size(_iso_text(value, reader) if reader and self.sent_as == "sqlite" else value)


def describe(reflected: ReflectedColumn, backend: str) -> Column:
    """Say what a column holds, by its type and the kind of database that it is in."""
    name, declared, nullable = reflected["name"], reflected["type"], reflected["nullable"]
    if backend == "sqlite":
        return _describe_sqlite(name, declared, nullable=nullable)
    if backend == "postgresql":
        return _describe_postgresql(name, declared, nullable=nullable)
    return Column(name, _kind_of(declared), declared, nullable)


def _kind_of(declared: sa.types.TypeEngine[Any]) -> Kind:
    return next((kind for type_, kind in _KINDS if isinstance(declared, type_)), OTHER)


# SQLite, whose columns may hold anything, whatever was declared; values are bound as they are.

_NULL_TYPE = sa.types.NullType()
# The texts of dates and times in forms whose order is that of what they mean, in UTC; SQLite knows milliseconds.
_SQLITE_FORMS = {DATE: "%Y-%m-%d", MOMENT: "%Y-%m-%d %H:%M:%f", TIME: "%H:%M:%f"}
# Of UTF-8 and of UTF-16, the two that SQLite knows.
_BYTES_OF_A_CHARACTER = 4


def _describe_sqlite(name: str, declared: sa.types.TypeEngine[Any], *, nullable: bool) -> Column:
    kind = _kind_of(declared)
    # A type that SQLite does not know lets anything in.
    if isinstance(declared, sa.types.NullType) or (type(declared) is sa.NUMERIC and declared.precision is None):
        kind = ANYTHING
    elif kind is IDENTIFIER:
        kind = TEXT
    form = _SQLITE_FORMS.get(kind)
    # A text that is no date counts as null.
    return Column(name, kind, _NULL_TYPE, nullable or form is not None, form, "sqlite")


def _sqlite_value(value: Value) -> Any:
    match value:
        case datetime() | time():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case bool():
            return int(value)
        case Decimal():
            return float(value)
    return value


def _sqlite_cut(column: Expression, most: int) -> Expression:
    """Cut what is very long; what is shorter stays whole, because SQLite's functions of texts end them at a NUL."""
    length = sa.func.length(sa.cast(column, sa.BLOB))
    beginning = sa.func.substr(column, sa.literal(1), sa.literal(most + 1))
    return sa.case((length > sa.literal(_BYTES_OF_A_CHARACTER * most), beginning), else_=column)


# PostgreSQL: exact types, and whatever it has beyond JSON is sent as JSON text.

_TEXT_TYPE = sa.Text()
_REAL_TYPE: sa.REAL[Any] = sa.REAL()
_POSTGRESQL_TYPES: Mapping[Kind, sa.types.TypeEngine[Any]] = {
    INTEGER: sa.BigInteger(),
    NUMBER: sa.Double(),
    DECIMAL: sa.Numeric(),
    BOOLEAN: sa.Boolean(),
    TEXT: _TEXT_TYPE,
    DATE: sa.Date(),
    MOMENT: sa.DateTime(),
    TIME: sa.Time(),
    IDENTIFIER: sa.Uuid(),
    BYTES: sa.LargeBinary(),
}
_POSTGRESQL_FORMS: Mapping[Kind, SentAs] = {
    **dict.fromkeys((INTEGER, NUMBER, BOOLEAN), "itself"),
    **dict.fromkeys((TEXT, DECIMAL, IDENTIFIER, DOCUMENT), "text"),
    BYTES: "bytes",
}


def _describe_postgresql(name: str, declared: sa.types.TypeEngine[Any], *, nullable: bool) -> Column:
    # A domain is what it is made of.
    while isinstance(declared, postgresql.DOMAIN):
        declared = declared.data_type
    kind = _kind_of(declared)
    bound = _POSTGRESQL_TYPES.get(kind)
    match declared:
        # Their own comparison may be found elsewhere than in pg_catalog, or is none of texts.
        case sa.Enum() | postgresql.CITEXT() | sa.CHAR():
            bound = None
        case sa.REAL():
            bound = _REAL_TYPE
        case sa.DateTime(timezone=True):
            bound = sa.DateTime(timezone=True)
        case sa.Time(timezone=True):
            kind, bound = OTHER, None
    sent_as: SentAs = _POSTGRESQL_FORMS.get(kind, "json")
    return Column(name, kind, bound or _TEXT_TYPE, nullable, None if bound else "text", sent_as)


def _left(expression: Expression, most: int) -> Expression:
    text = sa.cast(expression, _TEXT_TYPE)
    return sa.func.pg_catalog.left(text, sa.literal(most + 1), type_=_TEXT_TYPE)


@dataclass(slots=True)
class Cells:
    """Make the cells of one answer, each of at most `most` characters or bytes; counts those that were `cut`."""

    most: int = LONGEST_CELL
    cut: int = 0

    def cut_to_size(self, value: str | bytes) -> str:
        """Cut a text, or bytes, which are written in base64."""
        shown = value[: self.most]
        text = base64.b64encode(shown).decode() if isinstance(shown, bytes) else shown
        if len(value) <= self.most:
            return text
        self.cut += 1
        return text + CUT

    def document(self, text: str) -> Any:
        """Read JSON; what is cut, too deep or no JSON that can be answered stays text."""
        if len(text) <= self.most:
            with contextlib.suppress(ValueError):
                return parse_json(text)
        return self.cut_to_size(text)

    def of(self, value: Any) -> Any:
        """Turn any value of a driver's into JSON."""
        match value:
            case None | bool():
                return value
            case int():
                return value if abs(value) <= _EXACT else str(value)
            case float():
                return _finite(value)
            case Decimal():
                return self.cut_to_size(format(value, "f")) if value.is_finite() else _finite(float(value))
            case bytes() | bytearray() | memoryview():
                return self.cut_to_size(bytes(value))
            case datetime() | date() | time():
                return value.isoformat()
            case UUID() | timedelta():
                return str(value)
            case dict() | list() | tuple():
                return self.document(json.dumps(value, default=str))
        return self.cut_to_size(str(value))


def _iso_text(text: str, read: Callable[[str], datetime | time]) -> str:
    """Write a date and time, or a time, as ISO 8601 has it; what Python's calendar does not know stays as it is."""
    try:
        return read(text).isoformat()
    except ValueError:
        return text


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
