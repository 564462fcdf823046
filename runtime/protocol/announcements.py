"""Give each run its voice on its thread, from its first event to the one that says how it has ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolweave.runtime.models import Outcome, Run
from toolweave.runtime.protocol.modes import speaks_protocol
from toolweave.runtime.protocol.run_announcer import RunAnnouncer
from toolweave.runtime.protocol.thread_log import ThreadLog


class Announcements:
    """The runs that are being executed and have something to tell.

    These are all runs that the newer protocol has started, and those of the older endpoints whose thread somebody
    listens to when they begin: of them it hears how they stand and their values. `answering` is held by whoever
    answers a question.
    """

    def __init__(self, log: ThreadLog) -> None:
        self.log = log
        self.answering = asyncio.Lock()
        self._speaking: dict[str, RunAnnouncer] = {}

    async def begin(self, run: Run) -> RunAnnouncer | None:
        """Give a run that is about to be executed its voice; None when nobody is to hear of it."""
        whole = speaks_protocol(run)
        if not whole and not self.log.has_listeners(run.thread_id):
            return None
        announcer = await self._voice(run, whole=whole)
        announcer.begin()
        return announcer

    def asking(self, thread_id: str, interrupt_id: str) -> str | None:
        """Name the run that has asked this question and has not ended yet."""
        return next(
            (
                run_id
                for run_id, voice in self._speaking.items()
                if voice.run.thread_id == thread_id and interrupt_id in voice.questions
            ),
            None,
        )

    def waits(self, thread_id: str) -> bool:
        """Say whether a run of this thread has asked something and has not ended yet."""
        return any(voice.interrupted for voice in self._speaking.values() if voice.run.thread_id == thread_id)

    def stands_still(self, thread_id: str) -> bool:
        """Say whether a run that has not ended yet has told that it waits for a human."""
        return any(voice.interrupted and voice.run.thread_id == thread_id for voice in self._speaking.values())

    @asynccontextmanager
    async def ending(self, run: Run, outcome: Outcome) -> AsyncIterator[None]:
        """Store how a run ends before the block writes its row, and tell it afterwards.

        A process that dies in between has told nobody; a client that is told finds the run ended.
        """
        announcer = self._speaking.get(run.run_id)
        if announcer is None and speaks_protocol(run):
            announcer = await self._voice(run, whole=True)
        if announcer is None:
            yield
            return
        try:
            last = announcer.end(outcome)
            self.log.flush()
            yield
            if last is not None:
                announcer.channel.deliver(last)
            self.log.forget_old(announcer.channel, announcer.began_after)
        finally:
            self._speaking.pop(run.run_id, None)
            self.log.release(announcer.channel)

    async def _voice(self, run: Run, *, whole: bool) -> RunAnnouncer:
        channel = await self.log.open(run.thread_id)
        earlier = self._speaking.pop(run.run_id, None)
        if earlier is not None:
            # Of an attempt whose end could not be written.
            self.log.release(earlier.channel)
        announcer = self._speaking[run.run_id] = RunAnnouncer(self.log, channel, run, whole, channel.last_seq)
        return announcer
