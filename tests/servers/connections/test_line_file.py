import os
import threading
from pathlib import Path

import pytest

from toolweave.servers.connections.line_file import LineFile


def test_lines_are_there_at_once_and_those_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lines"
    files = [LineFile(path, limit=10_000_000, kept=2) for _ in range(4)]

    def write(number: int) -> None:
        for _ in range(50):
            files[number].write(str(number) * 20_000 + "\n")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == [str(number) * 20_000 for number in range(4) for _ in range(50)]
    for file in files:
        file.stop()
        file.stop()


def test_a_full_file_becomes_number_one_and_the_oldest_goes(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "lines", limit=6, kept=2)
    for number in range(8):
        file.write(f"{number}\n")
    file.stop()
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "lines": "6\n7\n",
        "lines.1": "3\n4\n5\n",
        "lines.2": "0\n1\n2\n",
    }


def test_a_line_longer_than_the_limit_is_written_all_the_same(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "lines", limit=6, kept=2)
    file.write("long enough\n")
    file.write("1\n")
    file.stop()
    assert (tmp_path / "lines").read_text(encoding="utf-8") == "1\n"


def test_after_half_a_line_the_next_is_one_of_its_own(tmp_path: Path) -> None:
    # A pipe that is full takes half a line, as a full disk does.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = LineFile(path, limit=10_000_000, kept=2)
    file.write("first\n")
    assert file._open is not None
    os.set_blocking(file._open, False)
    with pytest.raises(BlockingIOError):
        file.write("x" * 1_000_000 + "\n")
    read = os.read(reader, 10_000_000)
    file.write("next\n")
    read += os.read(reader, 10_000_000)
    file.stop()
    os.close(reader)
    assert read.startswith(b"first\nx")
    assert read.endswith(b"x\nnext\n")


def test_a_file_that_is_gone_is_made_again_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lines"
    file = LineFile(path, limit=1_000, kept=2)
    file.write("1\n")
    path.unlink()
    path.parent.rmdir()
    file.write("2\ud800\n")
    file.stop()
    assert path.read_text(encoding="utf-8") == "2\\ud800\n"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
