"""Make up tables and queries, and answer these queries in Python, independently of any database."""

import random
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st

METADATA = sa.MetaData()
THINGS = sa.Table(
    "things",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("size", sa.BigInteger),
    sa.Column("weight", sa.Float),
    sa.Column("is_new", sa.Boolean),
    sa.Column("day", sa.Date),
    sa.Column("at", sa.DateTime),
)
VAULT = sa.Table("vault", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))
CAP = 20
COLUMNS = tuple(column.name for column in THINGS.columns)

_HOSTILE = ["'; DROP TABLE things; --", '" OR 1=1 --', "%s", ":name", "$1", "\\", "%", "_", "\\%", "a'b", "{}", "?"]
# Letters with no second case, and of those with one only ASCII: what else databases fold depends on their locale.
_TEXT = st.one_of(st.sampled_from(_HOSTILE), st.text("abAB %_\\'\"é\N{SNOWMAN}\n", max_size=6))
_INTEGER = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
_WEIGHT = st.one_of(st.sampled_from([-1.5, 0.0, 0.1, 1e300, 2.0]), st.floats(allow_nan=False, allow_infinity=False))
_DAY = st.dates(date(1, 1, 1), date(9999, 12, 31)) | st.dates(date(2026, 1, 1), date(2026, 1, 3))
_DAYS_WITH_TIMES = (datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1_000))  # noqa: DTZ001  as the column has them
# SQLite compares moments to the millisecond.
_MILLISECONDS = st.datetimes().map(lambda at: at.replace(microsecond=at.microsecond // 1_000 * 1_000))
_AT = _MILLISECONDS | st.sampled_from(_DAYS_WITH_TIMES)
_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-1, 60),
    "name": _TEXT,
    "size": _INTEGER,
    "weight": _WEIGHT,
    "is_new": st.booleans(),
    "day": _DAY,
    "at": _AT,
}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda stored, value: bool(stored == value),
    "ne": lambda stored, value: bool(stored != value),
    "lt": lambda stored, value: bool(stored < value),
    "le": lambda stored, value: bool(stored <= value),
    "gt": lambda stored, value: bool(stored > value),
    "ge": lambda stored, value: bool(stored >= value),
}


def in_json(value: Any) -> Any:
    """Write a value as a call has it."""
    return value.isoformat() if isinstance(value, date) else value


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Make up what the table holds: many values come several times."""
    pools = {name: draw(st.lists(values, min_size=1, max_size=4)) for name, values in _VALUES.items()}
    # Drawing each cell would take longer than all queries of them.
    chance = random.Random(draw(st.integers(0, 2**32)))
    return [
        {"id": number} | {name: chance.choice([None, *pools[name], *pools[name]]) for name in COLUMNS[1:]}
        for number in range(draw(st.integers(0, 40)))
    ]


def conditions(pools: Mapping[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Make up one condition; half of the values are in the table. `value` is as Python has it."""

    @st.composite
    def make(draw: st.DrawFn) -> dict[str, Any]:
        column = draw(st.sampled_from(COLUMNS))
        value = st.sampled_from(pools[column]) | _VALUES[column] if pools[column] else _VALUES[column]
        ordered = ["lt", "le", "gt", "ge"] if column != "is_new" else []
        op = draw(st.sampled_from(["eq", "ne", "in", "is_null", *ordered, *(["like"] * 3 if column == "name" else [])]))
        if op == "is_null":
            return {"column": column, "op": op, "value": draw(st.booleans())}
        if op == "in":
            return {"column": column, "op": op, "value": draw(st.lists(value, min_size=1, max_size=4))}
        if op == "like":
            pattern = draw(
                st.lists(st.sampled_from(["%", "_", "a", "B", "\\%", "\\_", "\\\\", "\\a", "'", " "]), max_size=5)
            )
            return {"column": column, "op": op, "value": "".join(pattern)}
        return {"column": column, "op": op, "value": draw(value)}

    return make()


def filters(table: list[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Make up a tree of conditions and groups."""
    pools = {name: [row[name] for row in table if row[name] is not None] for name in COLUMNS}
    node = st.recursive(
        conditions(pools),
        lambda inner: st.builds(
            lambda kind, members: {kind: members},
            st.sampled_from(["and", "or"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=6,
    ).filter(lambda tree: _depth(tree) <= 4)
    return st.lists(node, max_size=3)


def as_call(tree: Any) -> Any:
    """Write a filter tree as a call has it."""
    if isinstance(tree, list):
        return [as_call(item) for item in tree]
    if isinstance(tree, dict):
        return {name: as_call(value) for name, value in tree.items()}
    return in_json(tree)


def holds(tree: dict[str, Any], row: Mapping[str, Any]) -> bool:
    """Say whether a row meets a condition or group; a comparison with a missing value does not hold."""
    if "and" in tree:
        return all(holds(member, row) for member in tree["and"])
    if "or" in tree:
        return any(holds(member, row) for member in tree["or"])
    stored, op, value = row[tree["column"]], tree["op"], tree["value"]
    if op == "is_null":
        return bool((stored is None) == value)
    if stored is None:
        return False
    if op == "in":
        return stored in value
    return _matches(stored, value) if op == "like" else _COMPARE[op](stored, value)


def ordered(table: list[dict[str, Any]], order: list[str]) -> list[dict[str, Any]]:
    """Put rows in order: missing values last, in the end by id; texts by their code points."""
    found = sorted(table, key=lambda row: int(row["id"]))
    for item in reversed(order):
        name = item.removeprefix("-")
        with_value = [row for row in found if row[name] is not None]
        without = [row for row in found if row[name] is None]
        found = sorted(with_value, key=lambda row: row[name], reverse=item.startswith("-")) + without
    return found


def values_of(tree: Any) -> list[Any]:
    """List the values of a tree."""
    if isinstance(tree, list):
        return [value for item in tree for value in values_of(item)]
    if "column" in tree:
        return list(tree["value"]) if isinstance(tree["value"], list) else [tree["value"]]
    return [value for members in tree.values() for value in values_of(members)]


def _matches(text: str, pattern: str) -> bool:
    """Match a LIKE pattern by going through both, letter by letter."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_matches(text[start:], pattern[1:]) for start in range(len(text) + 1))
    literal = pattern[0] == "\\"
    letter, rest = (pattern[1], pattern[2:]) if literal else (pattern[0], pattern[1:])
    if not text or not ((letter == "_" and not literal) or text[0].lower() == letter.lower()):
        return False
    return _matches(text[1:], rest)


def _depth(tree: Any) -> int:
    if isinstance(tree, dict) and "column" not in tree:
        return 1 + max(_depth(member) for members in tree.values() for member in members)
    return 1
