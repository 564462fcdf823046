"""A tool whose registration was confirmed is there after a kill, and beside the tools of other processes (W-01)."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from toolweave.servers.registry.repository import open_registry_at

ROOT = Path(__file__).parents[3]
BOUND_S = 60.0


@contextmanager
def writer(url: str, name: str, count: int) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.servers.registry.writing_process", url, name, str(count)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout
    return map(str.strip, process.stdout)


def start(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.requirement("W-01")
async def test_tools_outlive_a_process_that_is_killed_while_it_registers_more(new_url: str, tmp_path: Path) -> None:
    with writer(new_url, "own", 100_000) as process:
        output = lines(process)
        assert next(output) == "ready"
        start(process)
        confirmed = [next(output) for _ in range(60)]
        process.kill()
        confirmed += list(output)
    async with open_registry_at(new_url) as registry:
        assert (await registry.find(confirmed)).keys() == set(confirmed)
        # One more may have been written than was confirmed.
        assert (await registry.search(limit=1)).total - len(confirmed) in (0, 1)
        await registry.delete(confirmed[0])
    if (path := tmp_path / "tools.db").exists():
        with closing(sqlite3.connect(path)) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_two_processes_create_the_registry_and_write_side_by_side(new_url: str) -> None:
    count = 15
    with writer(new_url, "one", count) as one, writer(new_url, "two", count) as two:
        outputs = [lines(one), lines(two)]
        assert [next(output) for output in outputs] == ["ready", "ready"]
        for process in (one, two):
            start(process)
        registered = [list(output) for output in outputs]
        assert [one.wait(BOUND_S), two.wait(BOUND_S)] == [0, 0]
    everything = registered[0] + registered[1]
    expected = {f"{prefix}_{number}" for prefix in ("one", "two", "shared") for number in range(count)}
    # Each shared id was confirmed once only.
    assert len(everything) == len(expected)
    assert set(everything) == expected
    async with open_registry_at(new_url) as registry:
        assert {config.tool_id for config in await registry.list_all()} == expected
        stored = (await registry.find_registered(everything)).values()
        assert len({tool.revision for tool in stored}) == 3 * count
