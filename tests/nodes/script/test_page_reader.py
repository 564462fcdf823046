"""Pages are read in a process of its own, with limits, which ends with the process that started it (A-04)."""

import asyncio
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.logged import logged
from tests.fixtures.mcp_server import child_pids
from tests.fixtures.web_pages import PAGES, five_megabytes
from tests.nodes.script.turns import Turns
from toolweave.errors import FetchFailed
from toolweave.nodes.script.extraction import READER_MODULE, extract_page

MIN_READ_BYTES = 5_000_000
"""A reader that has read so much has its page, and its parent waits for the answer."""


async def test_a_page_that_takes_too_long_fails_while_the_loop_goes_on() -> None:
    million = b"<html><body><div " + b" ".join(b"a%d=x" % number for number in range(1_000_000)) + b"><p>Hi</p>"
    turns = Turns()
    with pytest.raises(FetchFailed, match=r"too complex: its article was not extracted within 0\.5 s"):
        async with turns:
            await extract_page(million, "https://site.example/x", "text/html", seconds=0.5)

    assert turns.count > 20


@pytest.mark.slow
def test_a_reader_ends_when_its_parent_is_killed() -> None:
    bytes_sent, bound_s = 8_000_000, 30.0
    program = f"""if True:
        import asyncio
        from toolweave.nodes.script.extraction import extract_page
        page = b"<p " + b" ".join(b"a%d=x" % number for number in range(1_000_000)) + b">Hi</p>"
        assert len(page) > {bytes_sent}
        asyncio.run(extract_page(page, "https://site.example/x", "text/html"))
    """
    begun = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while not (reader := children.read_text(encoding="ascii").strip()) or bytes_read(reader) < bytes_sent:
            assert time.monotonic() - begun < bound_s, "the page was not handed over"
        descriptor = os.pidfd_open(int(reader))
        parent.kill()
    ended, _, _ = select.select([descriptor], [], [], bound_s)
    os.close(descriptor)
    assert ended


def bytes_read(pid: str) -> int:
    """Return how much a process has read (needs /proc)."""
    counters = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    return int(counters.split()[1])


def test_pages_are_read_within_limits_of_the_system_by_no_module_of_the_working_folder(tmp_path: Path) -> None:
    for module in ("json", "trafilatura", "toolweave"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('taken for a module')", encoding="utf-8")
    program = """if True:
        import asyncio
        from toolweave.nodes.script.extraction import extract_page
        body = b"<p>The keeper of the lamp trimmed it at dusk and slept well.</p>" * 4
        print(asyncio.run(extract_page(body, "https://site.example/x", "text/html"))["text"])
    """
    limited = ["sh", "-c", 'ulimit -v 1900000; ulimit -t 50; exec "$@"', "sh", sys.executable, "-P", "-c", program]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)

    assert ("slept well." in done.stdout, done.stderr) == (True, "")


async def test_a_reading_ends_with_its_process_however_often_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", REAL_PYTHON)
    million = b"<p " + b" ".join(b"a%d=x" % number for number in range(1_000_000)) + b">Hi</p>"
    reading = asyncio.create_task(extract_page(million, "https://site.example/x", "text/html"))
    readers: list[int] = []
    async with asyncio.timeout(60):
        while not readers:
            await asyncio.sleep(0)
            readers = [pid for pid in child_pids(READER_MODULE) if bytes_read(str(pid)) > MIN_READ_BYTES]
    # As a node is whose run is cancelled, and then by the end of the loop that it runs in.
    while not reading.done():
        reading.cancel()
        await asyncio.sleep(0)

    assert reading.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(readers[0], 0)


async def test_a_page_that_wants_too_much_memory_fails_alone() -> None:
    with pytest.raises(FetchFailed, match="too complex to be read"):
        await extract_page(five_megabytes(), "https://site.example/long", "text/html", memory_bytes=100 * 1024 * 1024)


async def test_a_refusal_of_the_reader_names_the_url_without_credentials() -> None:
    with pytest.raises(FetchFailed) as raised:
        await extract_page(b"<p>Nothing to see.</p>", "https://me:secret@site.example/x", "text/html")

    assert str(raised.value).startswith("The page https://site.example/x has no article, or almost no text.")
    assert "secret" not in str(raised.value)


async def test_a_missing_package_is_the_reported_reason_and_its_error_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trafilatura.py").write_text("raise ImportError('only half of it is installed')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with logged() as lines, pytest.raises(FetchFailed, match="a package to read it is missing"):
        await extract_page((PAGES / "blog.html").read_bytes(), "https://site.example/x", "text/html")

    assert lines == ["the process that reads pages exited with code 1: ImportError: only half of it is installed"]
