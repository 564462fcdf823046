"""The loop behind run_sync."""

import signal
import subprocess
import sys

SCRIPT = """
import asyncio
from toolweave.graphs.background_loop import background_loop

async def work():
    try:
        print("working", flush=True)
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        print("cleaned up", flush=True)

try:
    background_loop.run(work())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_cancels_the_work_and_waits_until_it_has_cleaned_up() -> None:
    with subprocess.Popen(
        # A library that is loaded with JSONPaths asks for the locale's encoding, once.
        [sys.executable, "-W", "error", "-W", "ignore::EncodingWarning", "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)

    assert (process.returncode, output, errors) == (0, "cleaned up\ninterrupted\n", "")
