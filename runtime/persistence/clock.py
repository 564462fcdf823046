"""Read the clock, in the one place where tests can put another."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Give the present moment in UTC."""
    return datetime.now(UTC)
