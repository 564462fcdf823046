"""The loop behind run_sync."""

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os, signal, sys
from toolweave.graphs.background_loop import background_loop

# Whoever has the interpreter keeps it: the work is under way before the call that began it returns.
sys.setswitchinterval(1)

async def work():
    try:
        if "at once" in sys.argv:
            os.kill(os.getpid(), signal.SIGINT)
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


@pytest.mark.parametrize("when", ["later", "at once"])
def test_ctrl_c_cancels_the_work_and_waits_until_it_has_cleaned_up(when: str) -> None:
    with subprocess.Popen(
        # A library that is loaded with JSONPaths asks for the locale's encoding, once.
        [sys.executable, "-W", "error", "-W", "ignore::EncodingWarning", "-c", SCRIPT, when],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        begun = ""
        if when == "later":
            begun = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)

    assert (process.returncode, begun + output, errors) == (0, "working\ncleaned up\ninterrupted\n", "")
