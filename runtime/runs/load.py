"""Say how much an engine has to do: what operators watch."""

from dataclasses import dataclass
from datetime import datetime
from statistics import median

from toolweave.runtime.models import Run
from toolweave.runtime.runs.engine import EmbeddedEngine


@dataclass(frozen=True, slots=True)
class Load:
    """The runs that have not ended; waiting times in seconds are None when nothing waits.

    A delayed run waits from the moment it is due. `unblocked` ones wait for a worker, not for another run of their
    thread.
    """

    pending: int
    running: int
    longest_wait_s: float | None
    median_wait_s: float | None
    longest_unblocked_wait_s: float | None


def load_of(engine: EmbeddedEngine, now: datetime) -> Load:
    """Measure an engine at a moment."""
    runs = [live.run for live in engine.live.values()]
    running = [run for run in runs if run.status == "running"]
    occupied = {run.thread_id for run in running}
    waits: list[float] = []
    unblocked: list[float] = []
    # In the order of their creation: the first of a thread is the one that may start.
    for run in runs:
        if run.status == "pending" and (waited := _waited(run, now)) >= 0:
            waits.append(waited)
            if run.thread_id not in occupied:
                unblocked.append(waited)
                occupied.add(run.thread_id)
    return Load(
        pending=len(runs) - len(running),
        running=len(running),
        longest_wait_s=max(waits, default=None),
        median_wait_s=median(waits) if waits else None,
        longest_unblocked_wait_s=max(unblocked, default=None),
    )


def _waited(run: Run, now: datetime) -> float:
    return (now - (run.not_before or run.created_at)).total_seconds()
