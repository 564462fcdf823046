"""Wait for the next cron that is due and fire it; nothing polls.

A firing is claimed in the transaction that creates its run: whatever line a crash falls on, either both are stored or
neither, and then the firing is due again at the next start. Firings missed while no server ran are made up for by one,
at once; then the schedule goes on. A firing that cannot become a run is logged and skipped.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from loguru import logger

from toolweave.errors import InvalidRequest, PersistenceError, RequestError
from toolweave.runtime.crons.schedule import next_firing
from toolweave.runtime.models import Cron
from toolweave.runtime.persistence.crons import Claim, CronRepository, FiringTakenError, claim_of

# Creates a cron's run, with the claim inside the same transaction.
Fire = Callable[[Cron, Claim], Awaitable[None]]
# The wall clock may be set, and the machine may sleep: it is looked at again after this time at the latest.
LONGEST_WAIT = timedelta(minutes=1)
RETRY = timedelta(seconds=5)


class Clock(Protocol):
    """Tells the time and lets it pass."""

    def now(self) -> datetime:
        """Give the present moment, aware."""

    async def sleep_until(self, moment: datetime) -> None:
        """Return when the moment has come, or earlier."""


class WallClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Give the present moment in UTC."""
        return datetime.now(UTC)

    async def sleep_until(self, moment: datetime) -> None:
        """Sleep until the moment, a minute at most."""
        wait = min(moment - self.now(), LONGEST_WAIT)
        await asyncio.sleep(max(0.0, wait.total_seconds()))


class CronClock:
    """Fire crons as they fall due; run it with `running_cron_clock`."""

    def __init__(self, crons: CronRepository, fire: Fire, clock: Clock) -> None:
        self._crons = crons
        self._fire = fire
        self._clock = clock

    async def run(self) -> None:
        """Fire what is due, wait for the next or for a change, and so on until cancelled."""
        while True:
            self._crons.changed.clear()
            try:
                due = await self._crons.due(self._clock.now())
                for cron in due:
                    await self._fire_one(cron)
                wake_at = self._clock.now() if due else await self._crons.next_due()
            except Exception as error:  # noqa: BLE001 - the top-level handler of firings: crons must not end silently
                logger.opt(exception=error).error("crons cannot be fired now: {}", error)
                wake_at = self._clock.now() + RETRY
            await change_or_moment(self._crons.changed, self._clock, wake_at)

    async def _fire_one(self, cron: Cron) -> None:
        claim = claim_of(cron, self._following(cron))
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
        await self._crons.skip(claim)

    def _following(self, cron: Cron) -> datetime | None:
        try:
            return next_firing(cron.schedule, cron.timezone, self._clock.now(), cron.end_time)
        except InvalidRequest as error:
            # The time zone may have left the machine's database.
            logger.error("cron {} cannot fire again: {}", cron.cron_id, error)
            return None


async def change_or_moment(changed: asyncio.Event, clock: Clock, moment: datetime | None) -> None:
    """Wait until something changes or the moment has come, whichever is first."""
    waiting: set[asyncio.Task[object]] = {asyncio.create_task(changed.wait())}
    if moment is not None:
        waiting.add(asyncio.create_task(clock.sleep_until(moment)))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@asynccontextmanager
async def running_cron_clock(crons: CronRepository, fire: Fire, clock: Clock | None = None) -> AsyncIterator[None]:
    """Fire crons while the block runs; open it when runs can start, and leave it before they cannot any more."""
    task = asyncio.create_task(CronClock(crons, fire, clock or WallClock()).run(), name="cron-clock")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
