"""Describe columns: the values they are compared with, and how their cells are selected and formatted (C-03, C-07).

Databases differ in the fields of a `Column`, which `describe_column` fills in. Every value of a call is bound as a
parameter; none becomes SQL text.
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
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed
from toolweave.servers.tool_server import parse_json

Expression = sa.ColumnElement[Any]
CellForm = Literal["itself", "bytes", "text", "json", "sqlite"]
Value = str | int | float | bool | bytes | Decimal | date | datetime | time | UUID

MAX_CELL_LENGTH = 10_000
CUT_MARK = " … [cut]"
# Some JSON parsers round larger integers.
_MAX_EXACT_INTEGER = 2**53 - 1

_INTEGER_TEXT = re.compile(r"-?[0-9]{1,19}")
_DECIMAL_TEXT = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_COMPARISONS: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "in", "is_null")
_EQUALITIES: tuple[Operator, ...] = ("eq", "ne", "in", "is_null")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnKind:
    """A kind of column: its content and the values it is compared with (both for messages), and its operators."""

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


def _to_datetime(value: Scalar) -> datetime:
    moment = datetime.fromisoformat(_to_text(value).strip())
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _to_time(value: Scalar) -> time:
    parsed = time.fromisoformat(_to_text(value).strip())
    if parsed.tzinfo:
        raise ValueError
    return parsed


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
DATE = ColumnKind(
    "dates", "an ISO 8601 date such as 2026-12-24", lambda value: date.fromisoformat(_to_text(value).strip())
)
DATETIME = ColumnKind("dates with times", "an ISO 8601 date and time such as 2026-12-24T15:00:00Z", _to_datetime)
TIME = ColumnKind("times of day", "an ISO 8601 time of day such as 15:00:00, without an offset", _to_time)
IDENTIFIER = ColumnKind("UUIDs", "a UUID", lambda value: UUID(_to_text(value)))
BYTES = ColumnKind(
    "bytes", "bytes in base64", lambda value: base64.b64decode(_to_text(value), validate=True), _EQUALITIES, False
)
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
    (sa.types._Binary, BYTES),  # noqa: SLF001  the common base of BLOB and VARBINARY
    (sa.String, TEXT),
)
_ISO_PARSERS: Mapping[ColumnKind, Callable[[str], datetime | time]] = {
    DATETIME: datetime.fromisoformat,
    TIME: time.fromisoformat,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may be read.

    Values to compare are bound with `type`. `comparison_form` is "text" if the column is cast to text for a comparison,
    or the format in which SQLite's strftime writes it. `cell_form` is the form in which the database sends its cells.
    """

    name: str
    kind: ColumnKind
    type: sa.types.TypeEngine[Any]
    nullable: bool
    comparison_form: str | None = None
    cell_form: CellForm = "itself"

    def operand(self, clause: Expression) -> Expression:
        """Return the expression to compare and order by, for the column or for a value."""
        if self.comparison_form == "text":
            return sa.cast(clause, _TEXT_TYPE)
        form = self.comparison_form
        return sa.func.strftime(sa.literal(form), clause, type_=_NULL_TYPE) if form else clause

    def bind_value(self, value: Scalar, path: str) -> Expression:
        """Bind a call's value for a comparison with the operand; `path` names it in messages.

        Raises:
            ToolFailed: the value is not of the column's kind.
        """
        try:
            converted = self.kind.convert(value)
        except (ValueError, TypeError, OverflowError):
            raise ToolFailed(INVALID_PARAMETER, f"Parameter '{path}' must be {self.kind.expected}.") from None
        if self.cell_form == "sqlite":
            return self.operand(sa.literal(_sqlite_value(converted)))
        bound = sa.literal(converted, self.type)
        # The driver binds every float as double precision, in which 0.1 is another number than as REAL.
        return sa.cast(bound, _REAL_TYPE) if self.type is _REAL_TYPE else bound

    def select(self, clause: Expression, max_length: int) -> Expression:
        """Return the expression that selects the column; of a long cell it selects `max_length` + 1 characters."""
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
        """Convert a selected cell to a JSON value."""
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
    """Describe a column by its declared type and its database backend."""
    name, declared, nullable = reflected["name"], reflected["type"], reflected["nullable"]
    if backend == "sqlite":
        return _describe_sqlite(name, declared, nullable=nullable)
    if backend == "postgresql":
        return _describe_postgresql(name, declared, nullable=nullable)
    return Column(name, _column_kind(declared), declared, nullable)


def _column_kind(declared: sa.types.TypeEngine[Any]) -> ColumnKind:
    return next((kind for type_, kind in _KIND_BY_TYPE if isinstance(declared, type_)), UNSUPPORTED)


# SQLite: a column may contain values of any type, whatever type it declares; values are bound unchanged.

_NULL_TYPE = sa.types.NullType()
# Formats of dates and times in UTC whose text order is their order in time; SQLite has milliseconds.
_SQLITE_FORMATS = {DATE: "%Y-%m-%d", DATETIME: "%Y-%m-%d %H:%M:%f", TIME: "%H:%M:%f"}
# At most, in UTF-8 and UTF-16, SQLite's two encodings.
_BYTES_PER_CHARACTER = 4


def _describe_sqlite(name: str, declared: sa.types.TypeEngine[Any], *, nullable: bool) -> Column:
    kind = _column_kind(declared)
    # A column of a type that is unknown to SQLite accepts any value.
    if isinstance(declared, sa.types.NullType) or (type(declared) is sa.NUMERIC and declared.precision is None):
        kind = ANYTHING
    elif kind is IDENTIFIER:
        kind = TEXT
    form = _SQLITE_FORMATS.get(kind)
    # strftime returns null for a text that is not a date.
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
    """Cut very long cells only, because SQLite's text functions end a text at a NUL."""
    length = sa.func.length(sa.cast(column, sa.BLOB))
    beginning = sa.func.substr(column, sa.literal(1), sa.literal(max_length + 1))
    return sa.case((length > sa.literal(_BYTES_PER_CHARACTER * max_length), beginning), else_=column)


# PostgreSQL: values are bound with exact types; cells of types beyond the table below are sent as JSON text.

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
    # A domain has the kind of its base type.
    while isinstance(declared, postgresql.DOMAIN):
        declared = declared.data_type
    kind = _column_kind(declared)
    bound = _POSTGRESQL_TYPES.get(kind)
    match declared:
        # Their own comparison operators may be outside pg_catalog, or do not compare as text.
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
    """Format the cells of one result, each with at most `max_length` characters or bytes, and count the cut ones."""

    max_length: int = MAX_CELL_LENGTH
    cut_count: int = 0

    def cut_text(self, value: str | bytes) -> str:
        """Return a text, or bytes as base64, cut to the maximum length."""
        beginning = value[: self.max_length]
        text = base64.b64encode(beginning).decode() if isinstance(beginning, bytes) else beginning
        if len(value) <= self.max_length:
            return text
        self.cut_count += 1
        return text + CUT_MARK

    def format_json(self, text: str) -> Any:
        """Parse a JSON text; return it as text if it is too long, too deep or invalid."""
        if len(text) <= self.max_length:
            with contextlib.suppress(ValueError):
                return parse_json(text)
        return self.cut_text(text)

    def format_value(self, value: Any) -> Any:
        """Convert any value from a driver to a JSON value."""
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
    """Return a date and time, or a time, in ISO 8601; a text that Python cannot parse is returned unchanged."""
    try:
        return parse(text).isoformat()
    except ValueError:
        return text


def _finite_or_name(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
