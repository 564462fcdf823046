import os
import threading
from pathlib import Path

import pytest

from toolweave.servers.connections.observation import LOOK_S, LineFile


def opened(path: Path, limit: int) -> LineFile:
    file = LineFile(path, limit=limit, kept=2, clock=lambda: 0.0)
    file.look_after()
    return file


def test_lines_are_there_at_once_and_those_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lines"
    files = [opened(path, 10_000_000) for _ in range(4)]

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
    file = opened(tmp_path / "lines", 5)
    for number in range(8):
        file.write(f"{number}\n")
        if file.is_due:
            file.look_after()
    file.stop()
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "lines": "6\n7\n",
        "lines.1": "3\n4\n5\n",
        "lines.2": "0\n1\n2\n",
    }


def test_after_half_a_line_the_next_is_one_of_its_own(tmp_path: Path) -> None:
    # A pipe that is full takes half a line, as a full disk does.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = opened(path, 10_000_000)
    file.write("first\n")
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
    file = opened(path, 1_000)
    file.write("1\n")
    path.unlink()
    path.parent.rmdir()
    file.look_after()
    file.write("2\ud800\n")
    file.stop()
    assert path.read_text(encoding="utf-8") == "2\\ud800\n"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_cannot_be_opened_says_why_with_every_line_until_it_can(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file is in the way", encoding="utf-8")
    file = opened(tmp_path / "folder" / "lines", 1_000)
    for _ in range(2):
        with pytest.raises(OSError, match="Not a directory"):
            file.write("1\n")
    (tmp_path / "folder").unlink()
    file.look_after()
    file.write("2\n")
    file.stop()
    assert (tmp_path / "folder" / "lines").read_text(encoding="utf-8") == "2\n"


def test_it_is_looked_after_when_it_is_full_and_from_time_to_time(tmp_path: Path) -> None:
    now = 0.0
    file = LineFile(tmp_path / "lines", limit=1, kept=2, clock=lambda: now)
    file.look_after()
    due = [file.is_due]
    now = LOOK_S
    due += [file.is_due]
    file.look_after()
    due += [file.is_due]
    file.write("1\n")
    due += [file.is_due]
    file.look_after()
    due += [file.is_due]
    file.stop()
    assert due == [False, True, False, True, False]


def test_a_line_is_never_written_to_what_took_the_number_of_a_former_file(tmp_path: Path) -> None:
    file = opened(tmp_path / "lines", 10_000_000)
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            (tmp_path / "lines").unlink(missing_ok=True)
            file.look_after()
            (tmp_path / "other").write_text("other", encoding="utf-8")

    mover = threading.Thread(target=move)
    mover.start()
    for _ in range(20_000):
        file.write("line\n")
    stop.set()
    mover.join()
    file.stop()
    assert (tmp_path / "other").read_text(encoding="utf-8") == "other"
