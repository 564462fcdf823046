"""Compute when a cron fires next, sleep until the next firing, and create its run; without polling.

A schedule has five fields (minute hour day month weekday), six or seven with seconds and years at the end, or is one of
@hourly, @daily, @weekly, @monthly, @yearly. When clocks move forward, firings in the missing hour happen right after
it. When they move back, a schedule for certain hours fires once, at the first occurrence; an hourly schedule fires in
both hours (like cron daemons).

A firing is claimed in the transaction that creates its run. After a crash both are stored or neither; in that case the
firing is due again at the next start. If several firings were missed while no server ran, one run is created. If a run
cannot be created, the firing is logged and skipped.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from croniter import croniter
from loguru import logger

from toolweave.errors import InvalidRequest, PersistenceError, RequestError
from toolweave.runtime.background import background_task
from toolweave.runtime.models import Cron
from toolweave.runtime.persistence.crons import ClaimFiring, CronRepository, FiringTakenError, firing_claim

MAX_ECHO = 80
SCHEDULE_PATTERN = re.compile(r"[0-9A-Za-z*/,\-?#L@ \t]{1,256}")
# croniter's extensions: random values, and values from a hash.
RANDOM_FIELD = re.compile(r"(?i)(?<![a-z])[hr](?![a-z])")
HOURLY_ALIAS = "@hourly"
HOUR_FIELD = 1


def next_firing(schedule: str, timezone: str | None, after: datetime, until: datetime | None = None) -> datetime | None:
    """Return the first time (UTC) after `after` at which a schedule fires; None if there is none up to `until`.

    Raises:
        InvalidRequest: the schedule or the time zone is invalid.
    """
    check_schedule(schedule)
    zone = parse_time_zone(timezone)
    try:
        moments = croniter(schedule, after.astimezone(zone))
        moment: datetime = moments.get_next(datetime)
        while moment.fold and not _is_hourly(schedule) and _is_ambiguous(moment):
            moment = moments.get_next(datetime)
    except (ValueError, OverflowError):
        return None
    moment = moment.astimezone(UTC)
    return None if until is not None and moment > until else moment


def check_schedule(schedule: str) -> None:
    """Validate a schedule. Raises InvalidRequest."""
    if not SCHEDULE_PATTERN.fullmatch(schedule) or RANDOM_FIELD.search(schedule) or not croniter.is_valid(schedule):
        raise InvalidRequest(
            f"Invalid cron schedule: {schedule[:MAX_ECHO]!r}. Write minute, hour, day of month, month and day of week, "
            "such as '*/5 * * * *' for every five minutes."
        )


def parse_time_zone(name: str | None) -> ZoneInfo:
    """Return the IANA time zone of this name, UTC for None. Raises InvalidRequest."""
    try:
        return ZoneInfo("UTC" if name is None else name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(
            f"Invalid timezone: {str(name)[:MAX_ECHO]!r}. Use a name of the IANA database, such as 'America/New_York'."
        ) from None


def _is_hourly(schedule: str) -> bool:
    fields = schedule.split()
    return schedule.strip() == HOURLY_ALIAS if len(fields) == 1 else fields[HOUR_FIELD].startswith("*")


def _is_ambiguous(moment: datetime) -> bool:
    return moment.utcoffset() != moment.replace(fold=0).utcoffset()


# Creates a cron's run, with the claim inside the same transaction.
FireCron = Callable[[Cron, ClaimFiring], Awaitable[None]]
# The wall clock may be changed and the machine may sleep, so the scheduler checks the time at least this often.
MAX_SLEEP = timedelta(minutes=1)
RETRY_DELAY = timedelta(seconds=5)


class Clock(Protocol):
    """A source of the time that can wait; tests replace it."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware."""

    async def sleep_until(self, moment: datetime) -> None:
        """Sleep until the moment at the latest."""


class WallClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep_until(self, moment: datetime) -> None:
        """Sleep until the moment, for a minute at most."""
        wait = min(moment - self.now(), MAX_SLEEP)
        await asyncio.sleep(max(0.0, wait.total_seconds()))


class CronScheduler:
    """Fire crons when they are due; start it with `run_cron_scheduler`."""

    def __init__(self, crons: CronRepository, fire: FireCron, clock: Clock) -> None:
        self._crons = crons
        self._fire = fire
        self._clock = clock

    async def run(self) -> None:
        """Fire due crons, then wait for the next due time or for a change of the crons; repeat until cancelled."""
        while True:
            self._crons.changed.clear()
            try:
                due = await self._crons.list_due(self._clock.now())
                for cron in due:
                    await self._fire_cron(cron)
                wake_at = self._clock.now() if due else await self._crons.next_due()
            except Exception as error:  # noqa: BLE001 - the top-level handler of firings: crons must not end silently
                logger.opt(exception=error).error("crons cannot be fired: {}", error)
                wake_at = self._clock.now() + RETRY_DELAY
            await wait_for_change(self._crons.changed, self._clock, wake_at)

    async def _fire_cron(self, cron: Cron) -> None:
        claim = firing_claim(cron, self._next_firing(cron))
        try:
            await self._fire(cron, claim)
        except FiringTakenError:
            return
        except PersistenceError:
            raise
        except RequestError as error:
            logger.warning("cron {} could not start its run: {}", cron.cron_id, error)
        except Exception as error:  # noqa: BLE001 - the top-level handler of firings: the other crons must go on
            logger.opt(exception=error).error("cron {} could not start its run", cron.cron_id)
        else:
            logger.info("cron {} has started its run", cron.cron_id)
            return
        await self._crons.skip_firing(claim)

    def _next_firing(self, cron: Cron) -> datetime | None:
        try:
            return next_firing(cron.schedule, cron.timezone, self._clock.now(), cron.end_time)
        except InvalidRequest as error:
            # The time zone may have been removed from the machine's database.
            logger.error("cron {} cannot fire again: {}", cron.cron_id, error)
            return None


async def wait_for_change(changed: asyncio.Event, clock: Clock, until: datetime | None) -> None:
    """Wait until `changed` is set or the time `until` has come."""
    waiting: set[asyncio.Task[object]] = {asyncio.create_task(changed.wait())}
    if until is not None:
        waiting.add(asyncio.create_task(clock.sleep_until(until)))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def run_cron_scheduler(
    crons: CronRepository, fire: FireCron, clock: Clock | None = None
) -> AbstractAsyncContextManager[None]:
    """Fire crons inside the block; open it after the engine and close it before the engine."""
    return background_task(CronScheduler(crons, fire, clock or WallClock()).run(), "cron-clock")
