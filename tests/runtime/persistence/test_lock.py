"""One process holds the data folder; the operating system lets go of it when that process is gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolweave.errors import DataFolderLocked
from toolweave.runtime.persistence.data_folder import LOCK_FILE, data_folder_lock

HOLD = """
import sys
from pathlib import Path
from toolweave.runtime.persistence.data_folder import data_folder_lock
with data_folder_lock(Path(sys.argv[1]), "http://127.0.0.1:2024"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_with_the_holder_and_a_fix_until_the_holder_is_killed(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        expected = rf"{tmp_path} is in use by process {process.pid} \(serving on http://127\.0\.0\.1:2024\).*--data-dir"
        with pytest.raises(DataFolderLocked, match=expected), data_folder_lock(tmp_path):
            pytest.fail("locked twice")

        process.send_signal(signal.SIGKILL)
        process.wait(60)

        with data_folder_lock(tmp_path):
            assert str(os.getpid()) in (tmp_path / LOCK_FILE).read_text(encoding="utf-8")


def test_the_folder_is_free_again_after_an_orderly_end(tmp_path: Path) -> None:
    for _ in range(2):
        with data_folder_lock(tmp_path, "http://127.0.0.1:1"):
            pass
    assert (tmp_path / LOCK_FILE).read_text(encoding="utf-8") == ""


def test_an_unreadable_lock_file_still_gives_a_clear_refusal(tmp_path: Path) -> None:
    with data_folder_lock(tmp_path):
        (tmp_path / LOCK_FILE).write_text('{"pid"', encoding="utf-8")
        with pytest.raises(DataFolderLocked, match="in use by another process"), data_folder_lock(tmp_path):
            pytest.fail("locked twice")
