"""Say when a cron schedule fires next, in its time zone and across changes of daylight saving time.

A schedule has five fields (minute hour day month weekday), or six or seven with seconds and years behind, or is one
of the words @hourly, @daily, @weekly, @monthly, @yearly. When clocks are put forward, what would fall into the missing
hour fires right after it. When they are put back, a schedule for certain hours fires once, the first time; one for
every hour goes on through both (the behaviour of cron daemons).
"""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from toolweave.errors import InvalidRequest

SHOWN = 80
WRITTEN = re.compile(r"[0-9A-Za-z*/,\-?#L@ \t]{1,256}")
# croniter's own additions: a random minute, and one made of a hash.
RANDOM = re.compile(r"(?i)(?<![a-z])[hr](?![a-z])")
WORD_FOR_EVERY_HOUR = "@hourly"
HOUR = 1


def next_firing(schedule: str, timezone: str | None, after: datetime, until: datetime | None = None) -> datetime | None:
    """Give the first moment (UTC) after one at which a schedule fires; None when none comes, or none before `until`.

    Raises:
        InvalidRequest: the schedule or the time zone is not one.
    """
    check_schedule(schedule)
    zone = time_zone(timezone)
    try:
        moments = croniter(schedule, after.astimezone(zone))
        moment: datetime = moments.get_next(datetime)
        while moment.fold and not _for_every_hour(schedule) and _is_ambiguous(moment):
            moment = moments.get_next(datetime)
    except (ValueError, OverflowError):
        return None
    moment = moment.astimezone(UTC)
    return None if until is not None and moment > until else moment


def check_schedule(schedule: str) -> None:
    """Accept a schedule. Raises InvalidRequest."""
    if not WRITTEN.fullmatch(schedule) or RANDOM.search(schedule) or not croniter.is_valid(schedule):
        raise InvalidRequest(
            f"Invalid cron schedule: {schedule[:SHOWN]!r}. Write minute, hour, day of month, month and day of week, "
            "such as '*/5 * * * *' for every five minutes."
        )


def time_zone(name: str | None) -> ZoneInfo:
    """Give an IANA time zone, UTC without a name. Raises InvalidRequest."""
    try:
        return ZoneInfo("UTC" if name is None else name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(
            f"Invalid timezone: {str(name)[:SHOWN]!r}. Use a name of the IANA database, such as 'America/New_York'."
        ) from None


def _for_every_hour(schedule: str) -> bool:
    fields = schedule.split()
    return schedule.strip() == WORD_FOR_EVERY_HOUR if len(fields) == 1 else fields[HOUR].startswith("*")


def _is_ambiguous(moment: datetime) -> bool:
    return moment.utcoffset() != moment.replace(fold=0).utcoffset()
