"""Claim threads for writing their checkpoints: one writer at a time, be it a run or a request (R-01).

A running run claims its thread by being the thread's only running run. Everything else that writes checkpoints takes a
claim of its own here: a state update, the deletion of a run, pruning, expiry, the deletion of a thread. The database
says who holds a thread; the checkpointer refuses what is written under any other claim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import BigInteger, BindParameter, Connection, bindparam, exists, null, or_, select, update

from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import Run
from toolweave.runtime.persistence.clock import utc_now
from toolweave.runtime.persistence.compiled import Compiled
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.json_text import to_micros
from toolweave.runtime.persistence.run_rows import ACTIVE, THREAD, active_runs, startable_run
from toolweave.runtime.persistence.tables import runs, threads

IN_FLIGHT = "Thread {thread_id} has in-flight runs: {run_ids}. Wait for them to end or cancel them."
# Begins the token of a claim under which the thread is deleted: nothing is created or changed there any more.
DELETING = "delete:"
CLAIMED = "Thread {thread_id} is being changed by another request. Try again when that has ended."

TOKEN: BindParameter[str] = bindparam("token")
EXPIRED_BY: BindParameter[int] = bindparam("expired_by", type_=BigInteger)
take_claim = Compiled(
    update(threads)
    .where(
        THREAD,
        threads.c.claim.is_(None),
        ~exists().where(runs.c.thread_id == threads.c.thread_id, ACTIVE),
        or_(EXPIRED_BY.is_(None), threads.c.expires_at <= EXPIRED_BY),
    )
    .values(claim=TOKEN)
    .returning(threads.c.thread_id)
)
seize_claim = Compiled(update(threads).where(THREAD).values(claim=TOKEN).returning(threads.c.thread_id))
release_claim = Compiled(update(threads).where(THREAD, threads.c.claim == TOKEN).values(claim=null()))
clear_claims = Compiled(update(threads).where(threads.c.claim.is_not(None)).values(claim=null()))
claim_of = Compiled(select(threads.c.claim).where(THREAD))


@dataclass(frozen=True, slots=True)
class ThreadClaim:
    """The right to write a thread's checkpoints; no two claims have the same token."""

    thread_id: str
    token: str

    @classmethod
    def new(cls, thread_id: str) -> "ThreadClaim":
        """Make a claim that nobody holds yet."""
        return cls(thread_id, str(uuid4()))

    @classmethod
    def to_delete(cls, thread_id: str) -> "ThreadClaim":
        """Make a claim for deleting the thread: until it is released, runs cannot be created there."""
        return cls(thread_id, f"{DELETING}{uuid4()}")

    @classmethod
    def of_run(cls, run: Run) -> "ThreadClaim":
        """Name the claim that one attempt of a run has on its thread."""
        return cls(run.thread_id, f"{run.run_id}:{run.attempt}")


class ThreadClaims:
    """The claims of requests and sweeps; those of runs are the rows of running runs."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def take(self, claim: ThreadClaim, *, expired_by: datetime | None = None) -> None:
        """Claim an idle thread; with `expired_by`, only if its time to live is over by then.

        Raises:
            NotFound: there is no such thread.
            Conflict: a run is pending or running there, another claim holds it, or its time is not over.
        """
        values = {
            "of_thread": claim.thread_id,
            "token": claim.token,
            "expired_by": None if expired_by is None else to_micros(expired_by),
        }

        def work(connection: Connection) -> None:
            if take_claim.first(connection, values) is None:
                raise _refusal(connection, claim.thread_id)

        await self._database.write(work)

    async def seize(self, claim: ThreadClaim) -> None:
        """Claim a thread whatever else holds it: it is about to be deleted. Raises NotFound."""

        def work(connection: Connection) -> None:
            if seize_claim.first(connection, {"of_thread": claim.thread_id, "token": claim.token}) is None:
                raise _unknown(claim.thread_id)

        await self._database.write(work)

    async def release(self, claim: ThreadClaim) -> str | None:
        """Give a claim up, if it is held, and name the run that may start now on its thread."""
        values = {"of_thread": claim.thread_id, "token": claim.token, "now": to_micros(self._clock())}

        def work(connection: Connection) -> str | None:
            release_claim.run(connection, values)
            row = startable_run.first(connection, values)
            return None if row is None else row.run_id

        return await self._database.write(work)

    async def clear(self) -> None:
        """Give up all claims; only for the start of the one process that takes them."""
        await self._database.write(lambda connection: clear_claims.run(connection, {}))


def is_being_deleted(thread: Any) -> bool:
    """Say whether the claim in a row of `threads` is for deleting it."""
    return thread.claim is not None and thread.claim.startswith(DELETING)


def _refusal(connection: Connection, thread_id: str) -> Exception:
    row = claim_of.first(connection, {"of_thread": thread_id})
    if row is None:
        return _unknown(thread_id)
    active = active_runs.all(connection, {"of_thread": thread_id})
    if active:
        return Conflict(IN_FLIGHT.format(thread_id=thread_id, run_ids=", ".join(run.run_id for run in active[:10])))
    return Conflict(CLAIMED.format(thread_id=thread_id))


def _unknown(thread_id: str) -> NotFound:
    return NotFound(f"Thread with ID {thread_id} not found")
