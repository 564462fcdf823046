"""The health check of a server whose disk is full names the cause, and succeeds again when there is space (S-05)."""

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
UP = (200, {"ok": True, "services": {}})
CHECKED = "/ok?check_db=1"
BLOCK = 4_096

pytestmark = [
    pytest.mark.databases("sqlite", reason="the disk is that of the database"),
    pytest.mark.skipif(sys.platform != "linux", reason="limits of another process, and tmpfs, are Linux's"),
    pytest.mark.api("GET /ok", "503 says with check_db why nothing can be stored"),
    pytest.mark.api("GET /", "503 says with check_db why nothing can be stored"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 24 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
        mounted = subprocess.run(mount, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if mounted.returncode != 0:
        pytest.skip(f"this user may mount nothing: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Write a file until there is no room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(BLOCK)):
            pass
    assert shutil.disk_usage(disk).free == 0
    return filler


def get(process: AppProcess, path: str) -> tuple[int, object]:
    answer = httpx.get(f"{process.url}{path}", timeout=30)
    return answer.status_code, answer.json()


def check_refused(process: AppProcess, reason: str) -> None:
    """Check that only the check of the database fails, and that it names the file and the reason."""
    for path in ("/ok", "/"):
        status, body = get(process, f"{path}?check_db=1")
        assert (status, "app.db" in str(body), reason in str(body)) == (503, True, True)
        assert get(process, path) == UP


def test_a_full_disk_shows_in_the_check_of_the_database_only(small_disk: Path) -> None:
    with AppProcess(LANGGRAPH_JSON, small_disk / "data", {}) as process:
        assert get(process, CHECKED) == UP
        filler = fill(small_disk)
        check_refused(process, "Free space on that disk")
        filler.unlink()
        assert get(process, CHECKED) == UP
        assert [file.name for file in (small_disk / "data").glob(".*.space")] == []


def test_a_database_that_must_not_grow_shows_in_the_check_of_the_database_only(app_process: AppProcess) -> None:
    app_process.start()
    assert get(app_process, CHECKED) == UP
    _, most = resource.prlimit(app_process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(app_process.pid, resource.RLIMIT_FSIZE, (0, most))
    check_refused(app_process, "disk")
    resource.prlimit(app_process.pid, resource.RLIMIT_FSIZE, (most, most))
    assert get(app_process, CHECKED) == UP
