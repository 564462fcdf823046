"""A shop's database, the same on every kind of database: two tables, a view, and a table without a key."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

METADATA = sa.MetaData()
CUSTOMERS = sa.Table(
    "customers",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("secret", sa.Text),
)
ORDERS = sa.Table(
    "orders",
    METADATA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("customer", sa.String(40)),
    sa.Column("total", sa.Numeric(10, 2, asdecimal=False)),
    sa.Column("weight", sa.Float),
    sa.Column("is_paid", sa.Boolean),
    sa.Column("due_on", sa.Date),
    sa.Column("placed_at", sa.DateTime),
    sa.Column("sent_at", sa.DateTime(timezone=True)),
    sa.Column("opens", sa.Time),
    sa.Column("label", sa.LargeBinary),
    sa.Column("details", sa.JSON(none_as_null=True)),
)
LOG = sa.Table("log", METADATA, sa.Column("line", sa.Text), sa.Column("level", sa.Integer))
RUNS = sa.Table("runs", METADATA, sa.Column("id", sa.Integer, primary_key=True))

ORDER_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "customer": "Ada",
        "total": 12.5,
        "weight": 0.1,
        "is_paid": True,
        "due_on": date(2026, 1, 5),
        "placed_at": datetime(2026, 1, 1, 10, 0, 0, 123456),  # noqa: DTZ001  the column has no zone
        "sent_at": datetime(2026, 1, 2, 10, tzinfo=UTC),
        "opens": time(8, 30),
        "label": b"\x00\xff",
        "details": {"gift": True, "lines": [1, 2]},
    },
    {
        "id": 2,
        "customer": "ben",
        "total": 7.25,
        "weight": 2.0,
        "is_paid": False,
        "due_on": date(2026, 2, 1),
        "placed_at": datetime(2026, 1, 31, 23, 59, 59),  # noqa: DTZ001
        "sent_at": None,
        "opens": None,
        "label": None,
        "details": None,
    },
    {"id": 3, "customer": None, "total": None, "weight": None, "is_paid": None, "due_on": None, "placed_at": None},
    {"id": 4, "customer": "100%_Ünal\\", "total": 0, "weight": -1.5, "is_paid": True, "due_on": date(2025, 12, 31)},
]
_NAMES = tuple(column.name for column in ORDERS.columns)
TABLES = "orders, customers(id, name), log, paid_orders"


def make_shop(url: str) -> None:
    """Create and fill the tables."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(ORDERS.insert(), [dict.fromkeys(_NAMES) | row for row in ORDER_ROWS])
        names = [{"id": number, "name": name, "secret": f"s{number}"} for number, name in enumerate("abc", 1)]
        connection.execute(CUSTOMERS.insert(), names)
        connection.execute(LOG.insert(), [{"line": f"line {number}", "level": number % 2} for number in range(5)])
        connection.execute(sa.text("CREATE VIEW paid_orders AS SELECT id, customer FROM orders WHERE is_paid"))
    engine.dispose()


def price(value: Decimal | float | str | None) -> Decimal | None:
    """Read an amount, which PostgreSQL answers as exact text and SQLite as the number it keeps."""
    return None if value is None else Decimal(str(value))
