"""Compile the statements of the run path, translate between runs and their rows, and encrypt callers' credentials."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert  # with ON CONFLICT, also for SQLite

from toolweave.encryption import KEY_VARIABLE, TextCipher
from toolweave.errors import CredentialsUnreadable, PersistenceError, TokenStoreError
from toolweave.runtime.codec import from_json, to_json, to_micros
from toolweave.runtime.models import JsonObject, NewRun, Run, ThreadTtl
from toolweave.runtime.persistence.database import dispatch, is_sqlite
from toolweave.runtime.persistence.schema import FOLLOW_PREFIX, Statement, runs, threads, to_record, to_row

MICROS_PER_MINUTE = 60_000_000
# A run of the next more urgent priority starts first unless the other one has waited a minute longer, so that none
# starves (S-08).
MICROS_PER_PRIORITY = MICROS_PER_MINUTE


def expires_after(now: ColumnElement[int]) -> ColumnElement[int]:
    """Return the SQL expression for the expiry of a thread that changed at `now`: NULL without a time to live."""
    return cast(now + threads.c.ttl_minutes * MICROS_PER_MINUTE, BigInteger)


def ttl_columns(ttl: ThreadTtl | None, now: int) -> dict[str, object]:
    """Return the columns of a time to live that starts at `now`, in microseconds."""
    if ttl is None:
        return {"ttl_strategy": None, "ttl_minutes": None, "expires_at": None}
    expires_at = now + int(ttl.minutes * MICROS_PER_MINUTE)
    return {"ttl_strategy": ttl.strategy, "ttl_minutes": ttl.minutes, "expires_at": expires_at}


# The columns of a thread's priority before its first run (S-08).
NO_SETTINGS: Mapping[str, object] = {"priority": None, "fairness_group": None}


def settings_columns(new: NewRun) -> Mapping[str, object]:
    """Return the columns of the priority settings that a run brings for its thread."""
    if new.fairness_group is None:
        return NO_SETTINGS
    return {"priority": new.priority, "fairness_group": new.fairness_group}


def new_thread_row(
    thread_id: str,
    metadata: JsonObject,
    now: int,
    ttl: ThreadTtl | None,
    *,
    status: str = "idle",
    config: JsonObject | None = None,
    settings: Mapping[str, object] = NO_SETTINGS,
) -> dict[str, object]:
    """Return the row of a thread that is created at `now`."""
    return {
        "thread_id": thread_id,
        "status": status,
        "settled": "idle",
        "metadata": to_json(metadata),
        "config": to_json(config or {}),
        **dict.fromkeys(("created_at", "updated_at", "state_updated_at"), now),
        **ttl_columns(ttl, now),
        **settings,
    }


# Literals, not parameters: SQLite uses a partial index only for a condition in the text of the statement.
ACTIVE = text("runs.status IN ('pending', 'running')")
# An expression, so that SQLite sorts the few active runs; for the column it would read all runs in their order.
BY_AGE: ColumnElement[int] = literal_column("runs.seq + 0")
OTHER_RUN = runs.alias("other")
BY_ID = runs.c.run_id == bindparam("of_run")
BY_THREAD = runs.c.thread_id == bindparam("of_thread")
THREAD_BY_ID = threads.c.thread_id == bindparam("of_thread")
NOW: BindParameter[int] = bindparam("now")
CAN_START = (
    (runs.c.status == literal_column("'pending'"))
    & (func.coalesce(runs.c.not_before, 0) <= NOW)
    & ~exists().where(
        OTHER_RUN.c.thread_id == runs.c.thread_id,
        text("other.status IN ('pending', 'running')"),
        or_(
            OTHER_RUN.c.status == literal_column("'running'"),
            (OTHER_RUN.c.seq < runs.c.seq) & (func.coalesce(OTHER_RUN.c.not_before, 0) <= NOW),
        ),
    )
    & ~exists().where(threads.c.thread_id == runs.c.thread_id, threads.c.claim.is_not(None))
)
# A column without a value here keeps its default.
RUN_COLUMNS = [column.name for column in runs.c if column.name not in ("seq", "process_id", "cancel_reason")]
THREAD_COLUMNS = list(new_thread_row("", {}, 0, None))
run_by_id = Statement(select(runs).where(BY_ID))
run_of_thread = Statement(select(runs).where(BY_ID, BY_THREAD))
# On PostgreSQL a change of a thread or its runs first locks the thread's row, then those of its runs.
lock_thread_of_run = Statement(
    select(threads.c.thread_id).where(runs.c.thread_id == threads.c.thread_id, BY_ID).with_for_update(of=threads)
)
run_to_change = Statement(select(runs).where(BY_ID).with_for_update())
active_runs = Statement(
    select(runs.c.run_id, runs.c.status, runs.c.cancel, runs.c.not_before, runs.c.attempt)
    .where(BY_THREAD, ACTIVE)
    .order_by(runs.c.seq)
    .with_for_update()
)
startable_run = Statement(select(runs.c.run_id).where(BY_THREAD, ACTIVE, CAN_START))
promote_run = Statement(
    update(runs).where(BY_THREAD, ACTIVE, CAN_START).values(promoted=literal_column("1")).returning(runs.c.run_id)
)
startable_runs = Statement(select(runs.c.run_id).where(ACTIVE, CAN_START).order_by(runs.c.urgency, BY_AGE))
pending_runs = Statement(select(runs).where(ACTIVE, runs.c.status == literal_column("'pending'")).order_by(BY_AGE))
all_active_runs = Statement(select(runs).where(ACTIVE).order_by(BY_AGE))
delayed_runs = Statement(
    select(runs.c.run_id, runs.c.not_before)
    .where(ACTIVE, runs.c.not_before > NOW)
    .order_by(runs.c.not_before, runs.c.seq)
)
insert_run = Statement(
    insert(runs).on_conflict_do_nothing(index_elements=["run_id"]).returning(runs.c.seq), RUN_COLUMNS
)
start_run = Statement(
    update(runs)
    .where(BY_ID, CAN_START)
    .values(status=literal_column("'running'"), attempt=runs.c.attempt + 1, updated_at=NOW)
    .returning(*runs.c)
)
end_attempt = Statement(
    update(runs)
    .where(
        BY_ID,
        runs.c.attempt == bindparam("of_attempt"),
        runs.c.status == literal_column("'running'"),
        or_(
            bindparam("is_rolled_back", type_=Boolean),
            runs.c.temporary == literal_column("1"),
            func.coalesce(runs.c.cancel, "") != literal_column("'rollback'"),
        ),
    )
    .values(status=bindparam("new_status"), sealed=null(), updated_at=NOW)
    .returning(runs.c.thread_id, runs.c.temporary, runs.c.metadata, runs.c.watch, runs.c.created_at)
)
metadata_of_attempt = Statement(
    select(runs.c.metadata)
    .where(BY_ID, runs.c.attempt == bindparam("of_attempt"), runs.c.status == literal_column("'running'"))
    .with_for_update()
)
set_run_metadata = Statement(update(runs).where(BY_ID).values(metadata=bindparam("new_metadata"), updated_at=NOW))
interrupt_pending = Statement(
    update(runs)
    .where(BY_ID)
    .values(
        status="interrupted",
        cancel=bindparam("action"),
        cancel_reason=bindparam("reason"),
        sealed=null(),
        updated_at=NOW,
    )
)
mark_cancelled = Statement(
    update(runs).where(BY_ID).values(cancel=bindparam("action"), cancel_reason=bindparam("reason"))
)
requeue_running = Statement(update(runs).where(runs.c.status == "running").values(status="pending", updated_at=NOW))
requeue_run = Statement(
    update(runs)
    .where(BY_ID, runs.c.status == literal_column("'running'"))
    .values(status=literal_column("'pending'"), promoted=literal_column("0"), updated_at=NOW)
    .returning(runs.c.run_id)
)
delete_run = Statement(delete(runs).where(BY_ID))
thread_head = Statement(
    select(threads.c.metadata, threads.c.claim, threads.c.followed_until, threads.c.priority, threads.c.created_at)
    .where(THREAD_BY_ID)
    .with_for_update()
)
insert_thread = Statement(
    insert(threads)
    .values(followed_until=text(f"(SELECT max(seq) FROM run_events WHERE run_id = '{FOLLOW_PREFIX}' || :of_thread)"))  # noqa: S608
    .returning(threads.c.followed_until),
    THREAD_COLUMNS,
)
thread_exists = Statement(select(threads.c.thread_id).where(THREAD_BY_ID))
mark_thread_busy = Statement(
    update(threads)
    .where(THREAD_BY_ID)
    .values(
        status="busy",
        metadata=bindparam("new_metadata"),
        config=bindparam("new_config"),
        priority=func.coalesce(threads.c.priority, bindparam("new_priority", type_=Integer)),
        fairness_group=func.coalesce(threads.c.fairness_group, bindparam("new_group")),
        updated_at=NOW,
    )
)
update_thread_state = Statement(
    update(threads)
    .where(THREAD_BY_ID)
    .values(
        status=bindparam("new_status"),
        settled=bindparam("new_settled"),
        state_values=func.coalesce(bindparam("new_values"), threads.c.state_values),
        interrupts=bindparam("new_interrupts"),
        error=bindparam("new_error"),
        updated_at=NOW,
        state_updated_at=NOW,
        expires_at=expires_after(NOW),
    )
)
release_thread = Statement(
    update(threads)
    .where(THREAD_BY_ID, ~exists().where(runs.c.thread_id == threads.c.thread_id, ACTIVE))
    .values(status=threads.c.settled, updated_at=NOW, expires_at=expires_after(NOW))
)
delete_thread = Statement(delete(threads).where(THREAD_BY_ID))


def next_run(connection: Connection, thread_id: str, now: int) -> str | None:
    """Return the id of the thread's run that may start now, or None; on PostgreSQL, dispatch that run to a worker."""
    parameters = {"of_thread": thread_id, "now": now}
    if is_sqlite(connection):
        row = startable_run.first(connection, parameters)
    elif (row := promote_run.first(connection, parameters)) is not None:
        dispatch(connection, row.run_id)
    return None if row is None else str(row.run_id)


def has_started(row: Any) -> bool:
    """Return whether a run may have written checkpoints: it is running, or waits to continue after a crash.

    Only the engine may end such a run, because that reads the thread's checkpoints or rolls some back.
    """
    return bool(row.status == "running" or row.attempt > 0)


def run_from_row(row: Any) -> Run:
    """Convert a row of `runs` to a Run."""
    return to_record(Run, row)


def run_row(new: NewRun, *, is_promoted: bool) -> dict[str, Any]:
    """Return the row of a run that is about to be created."""
    initial = {"status": "pending", "attempt": 0, "cancel": None, "updated_at": to_micros(new.created_at)}
    return to_row(runs, new, **initial, temporary=int(new.temporary), urgency=_urgency(new), promoted=int(is_promoted))


def run_from_new(new: NewRun) -> Run:
    """Convert a NewRun that was just inserted to a pending Run, without reading its row."""
    known = {field.name: getattr(new, field.name) for field in fields(Run) if hasattr(new, field.name)}
    return Run(**known, status="pending", updated_at=new.created_at, attempt=0, cancel=None, urgency=_urgency(new))


def _urgency(new: NewRun) -> int:
    return to_micros(new.not_before or new.created_at) + new.priority * MICROS_PER_PRIORITY


def seal_credentials(cipher: TextCipher, credentials: JsonObject) -> bytes | None:
    """Encrypt credentials for a database; None if they are empty. It blocks.

    Raises:
        PersistenceError: there is no key, and none can be created.
    """
    if not credentials:
        return None
    try:
        return cipher.encrypt(to_json(credentials))
    except TokenStoreError as error:
        raise PersistenceError(
            f"The caller's credentials cannot be encrypted, so nothing was stored: {error}. Make the data folder "
            f"writable, or set {KEY_VARIABLE}."
        ) from error


async def open_credentials(cipher: TextCipher, sealed: bytes | None) -> JsonObject:
    """Decrypt the result of `seal_credentials`.

    Raises:
        CredentialsUnreadable: the key has changed or is missing.
    """
    if sealed is None:
        return {}
    try:
        # Switching to a thread costs each run 0.5 ms of CPU, decryption 0.03 ms.
        opened = await asyncio.to_thread(cipher.decrypt, sealed) if cipher.is_slow(sealed) else cipher.decrypt(sealed)
    except TokenStoreError as error:
        raise CredentialsUnreadable(
            f"The run was not executed, because the credentials of its caller cannot be read: {error}. Create the run "
            f"again (of a cron: the cron). {KEY_VARIABLE}, or the file oauth/key in the data folder, must stay the "
            "same as long as runs are unfinished."
        ) from error
    credentials: JsonObject = from_json(opened)
    return credentials
