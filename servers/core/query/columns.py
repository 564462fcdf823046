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
CellForm = Literal["itself", "bytes", "text", "json", "sqlite"]
Value = str | int | float | bool | bytes | Decimal | date | datetime | time | UUID

MAX_CELL_LENGTH = 10_000
CUT_MARK = " … [cut]"
# Beyond it some readers of JSON round.
_MAX_EXACT_INTEGER = 2**53 - 1

_INTEGER_TEXT = re.compile(r"-?[0-9]{1,19}")
_DECIMAL_TEXT = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_COMPARISONS: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "in", "is_null")
_EQUALITIES: tuple[Operator, ...] = ("eq", "ne", "in", "is_null")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnKind:
    """What a column holds, what a value that it is compared with must be, and the operators that make sense for it."""

    content: str
    expected: str
    convert: Callable[[Scalar], Value]
    operators: tuple[Operator, ...] = _COMPARISONS
    is_orderable: bool = True


def _to_integer(value: Scalar) -> int:
    if isinstance(value, str) and _INTEGER_TEXT.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _to_number(value: Scalar) -> float:
    if isinstance(value, bool | str):
        raise TypeError
    return float(value)


def _to_decimal(value: Scalar) -> Decimal:
    if isinstance(value, bool) or (isinstance(value, str) and not _DECIMAL_TEXT.fullmatch(value)):
        raise ValueError
    return Decimal(str(value))


def _to_boolean(value: Scalar) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _to_text(value: Scalar) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _to_date(value: Scalar) -> date:
    return date.fromisoformat(_to_text(value).strip())


def _to_datetime(value: Scalar) -> datetime:
    moment = datetime.fromisoformat(_to_text(value).strip())
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _to_time(value: Scalar) -> time:
    parsed = time.fromisoformat(_to_text(value).strip())
    if parsed.tzinfo:
        raise ValueError
    return parsed


def _to_uuid(value: Scalar) -> UUID:
    return UUID(_to_text(value))


def _to_bytes(value: Scalar) -> bytes:
    return base64.b64decode(_to_text(value), validate=True)


def _to_any(value: Scalar) -> Value:
    return _to_integer(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _reject(_value: Scalar) -> Value:
    raise ValueError


_ONLY_NULL = "absent: such a column can only be compared with is_null"
INTEGER = ColumnKind("whole numbers", "a whole number of at most 64 bits", _to_integer)
NUMBER = ColumnKind("numbers", "a number", _to_number)
DECIMAL = ColumnKind("decimal numbers", 'a number, or one as text such as "12.50"', _to_decimal)
BOOLEAN = ColumnKind("true and false", "true or false", _to_boolean, _EQUALITIES)
TEXT = ColumnKind("text", "text", _to_text, (*_COMPARISONS, "like"))
DATE = ColumnKind("dates", "an ISO 8601 date such as 2026-12-24", _to_date)
DATETIME = ColumnKind("dates with times", "an ISO 8601 date and time such as 2026-12-24T15:00:00Z", _to_datetime)
TIME = ColumnKind("times of day", "an ISO 8601 time of day such as 15:00:00, without an offset", _to_time)
IDENTIFIER = ColumnKind("UUIDs", "a UUID", _to_uuid)
BYTES = ColumnKind("bytes", "bytes in base64", _to_bytes, _EQUALITIES, is_orderable=False)
JSON = ColumnKind("JSON", _ONLY_NULL, _reject, ("is_null",), is_orderable=False)
ANYTHING = ColumnKind("anything", "text, a number, true or false", _to_any, (*_COMPARISONS, "like"))
UNSUPPORTED = ColumnKind("values that cannot be compared", _ONLY_NULL, _reject, ("is_null",), is_orderable=False)

_KIND_BY_TYPE: tuple[tuple[type[sa.types.TypeEngine[Any]], ColumnKind], ...] = (
    (sa.Enum, TEXT),
    (sa.JSON, JSON),
    (sa.ARRAY, UNSUPPORTED),
    (sa.Uuid, IDENTIFIER),
    (sa.Boolean, BOOLEAN),
    (sa.Integer, INTEGER),
    (sa.Float, NUMBER),
    (sa.Numeric, DECIMAL),
    (sa.DateTime, DATETIME),
    (sa.Date, DATE),
    (sa.Time, TIME),
    (sa.LargeBinary, BYTES),
    (sa.types._Binary, BYTES),  # noqa: SLF001  what BLOB and VARBINARY have in common
    (sa.String, TEXT),
)
_ISO_PARSERS: Mapping[ColumnKind, Callable[[str], datetime | time]] = {
    DATETIME: datetime.fromisoformat,
    TIME: time.fromisoformat,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may be read.

    `type` is how values to compare it with are bound. `compared_as` says what is compared instead of the column itself:
    its "text", or what SQLite's strftime makes of it. `sent_as` says in which form the database sends its cells.
    """

    name: str
    kind: ColumnKind
    type: sa.types.TypeEngine[Any]
    nullable: bool
    comparison_form: str | None = None
    cell_form: CellForm = "itself"

    def operand(self, clause: Expression) -> Expression:
        """Return what is compared and ordered by, made of the column or of a value."""
        if self.comparison_form == "text":
            return sa.cast(clause, _TEXT_TYPE)
        form = self.comparison_form
        return sa.func.strftime(sa.literal(form), clause, type_=_NULL_TYPE) if form else clause

    def bind_value(self, value: Scalar, path: str) -> Expression:
        """Bind a value of a call that the operand is compared with.

        Raises:
            ToolFailed: it is of another kind; says which one the column holds.
        """
        try:
            converted = self.kind.convert(value)
        except (ValueError, TypeError, OverflowError):
            raise ToolFailed(INVALID_PARAMETER, f"Parameter '{path}' must be {self.kind.expected}.") from None
        if self.cell_form == "sqlite":
            return self.operand(sa.literal(_sqlite_value(converted)))
        bound = sa.literal(converted, self.type)
        # The driver has one kind of float, and 0.1 is another number in each of the two.
        return sa.cast(bound, _REAL_TYPE) if self.type is _REAL_TYPE else bound

    def select(self, clause: Expression, max_length: int) -> Expression:
        """Select the column; of a long cell one character more than the `most` that are shown."""
        match self.cell_form:
            case "bytes":
                first, length = sa.literal(1), sa.literal(max_length + 1)
                return sa.func.pg_catalog.substr(clause, first, length, type_=sa.LargeBinary())
            case "text":
                return _cut_postgresql_text(clause, max_length)
            case "json":
                return _cut_postgresql_text(sa.func.pg_catalog.to_jsonb(clause), max_length)
            case "sqlite":
                return _cut_sqlite_cell(clause, max_length)
        return clause

    def format(self, value: Any, cells: "CellFormatter") -> Any:
        """Turn what was `selected` into JSON."""
        parse_iso = _ISO_PARSERS.get(self.kind)
        if not isinstance(value, str):
            is_flag = self.cell_form == "sqlite" and self.kind is BOOLEAN and value in (0, 1)
            return bool(value) if is_flag else cells.format_value(value)
        if self.cell_form == "json":
            document = cells.format_json(value)
            return _to_iso(document, parse_iso) if parse_iso and isinstance(document, str) else document
        if self.cell_form != "itself" and self.kind is JSON:
            return cells.format_json(value)
        return cells.cut_text(_to_iso(value, parse_iso) if parse_iso and self.cell_form == "sqlite" else value)


def describe_column(reflected: ReflectedColumn, backend: str) -> Column:
    """Say what a column holds, by its type and the kind of database that it is in."""
    name, declared, nullable = reflected["name"], reflected["type"], reflected["nullable"]
    if backend == "sqlite":
        return _describe_sqlite(name, declared, nullable=nullable)
    if backend == "postgresql":
        return _describe_postgresql(name, declared, nullable=nullable)
    return Column(name, _column_kind(declared), declared, nullable)


def _column_kind(declared: sa.types.TypeEngine[Any]) -> ColumnKind:
    return next((kind for type_, kind in _KIND_BY_TYPE if isinstance(declared, type_)), UNSUPPORTED)


# SQLite, whose columns may hold anything, whatever was declared; values are bound as they are.

_NULL_TYPE = sa.types.NullType()
# The texts of dates and times in forms whose order is that of what they mean, in UTC; SQLite knows milliseconds.
_SQLITE_FORMATS = {DATE: "%Y-%m-%d", DATETIME: "%Y-%m-%d %H:%M:%f", TIME: "%H:%M:%f"}
# Of UTF-8 and of UTF-16, the two that SQLite knows.
_BYTES_PER_CHARACTER = 4


def _describe_sqlite(name: str, declared: sa.types.TypeEngine[Any], *, nullable: bool) -> Column:
    kind = _column_kind(declared)
    # A type that SQLite does not know lets anything in.
    if isinstance(declared, sa.types.NullType) or (type(declared) is sa.NUMERIC and declared.precision is None):
        kind = ANYTHING
    elif kind is IDENTIFIER:
        kind = TEXT
    form = _SQLITE_FORMATS.get(kind)
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


def _cut_sqlite_cell(column: Expression, max_length: int) -> Expression:
    """Cut what is very long; what is shorter stays whole, because SQLite's functions of texts end them at a NUL."""
    length = sa.func.length(sa.cast(column, sa.BLOB))
    beginning = sa.func.substr(column, sa.literal(1), sa.literal(max_length + 1))
    return sa.case((length > sa.literal(_BYTES_PER_CHARACTER * max_length), beginning), else_=column)


# PostgreSQL: exact types, and whatever it has beyond JSON is sent as JSON text.

_TEXT_TYPE = sa.Text()
_REAL_TYPE: sa.REAL[Any] = sa.REAL()
_POSTGRESQL_TYPES: Mapping[ColumnKind, sa.types.TypeEngine[Any]] = {
    INTEGER: sa.BigInteger(),
    NUMBER: sa.Double(),
    DECIMAL: sa.Numeric(),
    BOOLEAN: sa.Boolean(),
    TEXT: _TEXT_TYPE,
    DATE: sa.Date(),
    DATETIME: sa.DateTime(),
    TIME: sa.Time(),
    IDENTIFIER: sa.Uuid(),
    BYTES: sa.LargeBinary(),
}
_POSTGRESQL_CELLS: Mapping[ColumnKind, CellForm] = {
    **dict.fromkeys((INTEGER, NUMBER, BOOLEAN), "itself"),
    **dict.fromkeys((TEXT, DECIMAL, IDENTIFIER, JSON), "text"),
    BYTES: "bytes",
}


def _describe_postgresql(name: str, declared: sa.types.TypeEngine[Any], *, nullable: bool) -> Column:
    # A domain is what it is made of.
    while isinstance(declared, postgresql.DOMAIN):
        declared = declared.data_type
    kind = _column_kind(declared)
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
            kind, bound = UNSUPPORTED, None
    sent_as: CellForm = _POSTGRESQL_CELLS.get(kind, "json")
    return Column(name, kind, bound or _TEXT_TYPE, nullable, None if bound else "text", sent_as)


def _cut_postgresql_text(expression: Expression, max_length: int) -> Expression:
    text = sa.cast(expression, _TEXT_TYPE)
    return sa.func.pg_catalog.left(text, sa.literal(max_length + 1), type_=_TEXT_TYPE)


@dataclass(slots=True)
class CellFormatter:
    """Make the cells of one answer, each of at most `most` characters or bytes; counts those that were `cut`."""

    max_length: int = MAX_CELL_LENGTH
    cut_count: int = 0

    def cut_text(self, value: str | bytes) -> str:
        """Cut a text, or bytes, which are written in base64."""
        shown = value[: self.max_length]
        text = base64.b64encode(shown).decode() if isinstance(shown, bytes) else shown
        if len(value) <= self.max_length:
            return text
        self.cut_count += 1
        return text + CUT_MARK

    def format_json(self, text: str) -> Any:
        """Read JSON; what is cut, too deep or no JSON that can be answered stays text."""
        if len(text) <= self.max_length:
            with contextlib.suppress(ValueError):
                return parse_json(text)
        return self.cut_text(text)

    def format_value(self, value: Any) -> Any:
        """Turn any value of a driver's into JSON."""
        match value:
            case None | bool():
                return value
            case int():
                return value if abs(value) <= _MAX_EXACT_INTEGER else str(value)
            case float():
                return _finite_or_name(value)
            case Decimal():
                return self.cut_text(format(value, "f")) if value.is_finite() else _finite_or_name(float(value))
            case bytes() | bytearray() | memoryview():
                return self.cut_text(bytes(value))
            case datetime() | date() | time():
                return value.isoformat()
            case UUID() | timedelta():
                return str(value)
            case dict() | list() | tuple():
                return self.format_json(json.dumps(value, default=str))
        return self.cut_text(str(value))


def _to_iso(text: str, parse: Callable[[str], datetime | time]) -> str:
    """Write a date and time, or a time, as ISO 8601 has it; what Python's calendar does not know stays as it is."""
    try:
        return parse(text).isoformat()
    except ValueError:
        return text


def _finite_or_name(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
