"""Write runs as fast as possible and print the acknowledged ones; the test kills this process."""

import asyncio
import sys
from functools import partial
from itertools import count
from pathlib import Path

from tests.runtime.persistence.records import SUCCESS, new_run
from toolweave.runtime.models import StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.events import append_events
from toolweave.runtime.persistence.runs import RunEnd


def acknowledge(run_id: str, status: str) -> None:
    """Print a stored status at once."""
    sys.stdout.write(f"{run_id} {status}\n")
    sys.stdout.flush()


async def write_runs(persistence: Persistence, writer: int) -> None:
    """Create, start and end runs; every third one stays running, every third pending."""
    runs = persistence.runs
    for number in count():
        run = (await runs.create_run(new_run(f"thread-{writer}-{number}", run_id=f"{writer}-{number}"))).run
        acknowledge(run.run_id, "pending")
        if number % 3 == 0:
            continue
        await runs.claim(run.run_id)
        acknowledge(run.run_id, "running")
        events = [StreamEvent(seq, "values", b"{}", run_id=run.run_id) for seq in range(3)]
        persistence.app.queue_write(partial(append_events, events=events))
        if number % 3 == 1:
            continue
        await runs.finalise(RunEnd(run.run_id, 1, SUCCESS))
        acknowledge(run.run_id, "success")


async def main(folder: Path) -> None:
    """Write on many threads at once, until killed."""
    async with open_persistence(folder, address="the crash test") as persistence:
        await asyncio.gather(*(write_runs(persistence, writer) for writer in range(8)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
