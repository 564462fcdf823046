"""Text files are read, whole or some of their lines; other files and large ones are refused with advice."""

import codecs
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.core.files.file_client import FileClient, file_client, open_descriptors, tree

LINES = "".join(f"line {number}\n" for number in range(1, 101))


async def test_a_file_is_read_with_its_metadata(files: FileClient) -> None:
    answer = await files.call("read_file", path="readme.md")
    assert answer["data"] == {"path": "readme.md", "content": "# Title\n\nHello world.\n"}
    assert {name: value for name, value in answer["metadata"].items() if name != "duration_ms"} == {
        "size_bytes": 22,
        "encoding": "utf-8",
        "first_line": 1,
        "last_line": 3,
        "total_lines": 3,
        "next_line": None,
    }


async def test_an_empty_file_is_an_empty_text_without_lines(files: FileClient) -> None:
    answer = await files.call("read_file", path="src/empty.py")
    assert answer["data"]["content"] == ""
    assert (answer["metadata"]["last_line"], answer["metadata"]["total_lines"]) == (0, 0)
    assert await files.code("src/empty.py", start_line=2) == "invalid_parameter"


async def test_a_long_file_is_read_in_parts_that_together_are_the_file(root: Path, files: FileClient) -> None:
    tree(root, {"long.txt": LINES + "the last, without an end"})
    parts, start = [], 1
    while start:
        answer = await files.call("read_file", path="long.txt", start_line=start, max_lines=7)
        parts.append(answer["data"]["content"])
        assert answer["metadata"]["total_lines"] == 101
        assert answer["metadata"]["first_line"] == start
        assert answer["metadata"]["last_line"] == min(start + 6, 101)
        start = answer["metadata"]["next_line"]
    assert "".join(parts) == LINES + "the last, without an end"
    assert len(parts) == 15
    for max_lines in (101, 1_000_000):
        answer = await files.call("read_file", path="long.txt", max_lines=max_lines)
        assert answer["data"]["content"] == "".join(parts)
        assert answer["metadata"]["next_line"] is None


async def test_a_line_behind_the_end_is_refused_with_the_number_of_lines(root: Path, files: FileClient) -> None:
    tree(root, {"long.txt": LINES, "pieces.txt": "x" * 65535 + "\n"})
    error = await files.refusal("read_file", path="long.txt", start_line=101)
    assert error["code"] == "invalid_parameter"
    assert error["message"].startswith("Parameter 'start_line' must be a whole number from 1 to 100")
    assert await files.code("pieces.txt", start_line=2) == "invalid_parameter"
    assert await files.code("long.txt", start_line=2**53 - 1) == "invalid_parameter"


@pytest.mark.requirement("C-05")
async def test_a_file_over_the_limit_is_refused_whole_and_given_in_parts(root: Path) -> None:
    tree(root, {"long.txt": LINES, "wide.txt": "ä" * 501 + "\nshort\n", "fits.txt": "ä" * 250})
    async with file_client(root, file_max_bytes=500) as files:
        error = await files.refusal("read_file", path="long.txt")
        assert (error["type"], error["code"]) == ("content", "too_large")
        assert "792 bytes; at most 500" in error["message"]
        assert "start_line" in error["suggestion"]
        answer = await files.call("read_file", path="long.txt", start_line=1, max_lines=100)
        assert len(answer["data"]["content"]) <= 500
        cut = answer["metadata"]["next_line"]
        assert LINES.startswith(answer["data"]["content"])
        assert await files.read("long.txt", start_line=cut, max_lines=1) == f"line {cut}\n"
        assert await files.read("fits.txt") == "ä" * 250
        error = await files.refusal("read_file", path="wide.txt", start_line=1, max_lines=2)
        assert (error["code"], error["message"][:6]) == ("too_large", "Line 1")
        assert await files.read("wide.txt", start_line=2) == "short\n"


async def test_a_part_far_into_a_large_file_is_found_without_holding_the_file(root: Path) -> None:
    with (root / "large.log").open("wb") as file:
        for number in range(30):
            file.write(b"x" * 99 + b"\n" + b"%d filler\n" % number * 5_000)
    async with file_client(root, file_max_bytes=1000) as files:
        answer = await files.call("read_file", path="large.log", start_line=29 * 5_001 + 1, max_lines=2)
        assert answer["data"]["content"] == "x" * 99 + "\n29 filler\n"
        assert answer["metadata"]["total_lines"] is None
        assert answer["metadata"]["next_line"] == 29 * 5_001 + 3


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("Grüße 🦷\r\nзавтра\n".encode(), "utf-8"),
        (codecs.BOM_UTF8 + "Grüße 🦷\r\nзавтра\n".encode(), "utf-8"),
        (codecs.BOM_UTF16_LE + "Grüße 🦷\r\nзавтра\n".encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "Grüße 🦷\r\nзавтра\n".encode("utf-16-be"), "utf-16-be"),
    ],
)
async def test_unicode_text_is_read_in_its_encoding_without_the_mark(
    root: Path, files: FileClient, content: bytes, encoding: str
) -> None:
    tree(root, {"text.txt": content})
    answer = await files.call("read_file", path="text.txt")
    assert answer["data"]["content"] == "Grüße 🦷\r\nзавтра\n"
    assert (answer["metadata"]["encoding"], answer["metadata"]["total_lines"]) == (encoding, 2)
    assert await files.read("text.txt", start_line=2) == "завтра\n"


async def test_characters_at_the_edges_of_what_is_read_at_once_stay_whole(root: Path, files: FileClient) -> None:
    text = "x" + "€🦷" * 60_000 + "\nend"
    tree(root, {"wide.txt": text, "wide16.txt": text.encode("utf-16")})
    assert await files.read("wide.txt") == text
    assert await files.read("wide16.txt") == text


@pytest.mark.requirement("C-05")
@pytest.mark.parametrize(
    "content",
    [
        b"text\0with a NUL",
        bytes(range(256)),
        codecs.BOM_UTF16_LE + b"\0\xd8",
        codecs.BOM_UTF16_LE + b"odd",
        "cut at the end €".encode()[:-1],
        b"\xed\xa0\x80",
        b"x" * 200_000 + b"\0",
    ],
)
async def test_a_file_that_is_no_text_is_refused(root: Path, files: FileClient, content: bytes) -> None:
    tree(root, {"file.bin": content})
    error = await files.refusal("read_file", path="file.bin")
    assert (error["type"], error["code"]) == ("content", "not_text")


async def test_a_folder_is_no_file(files: FileClient) -> None:
    for path in ("docs", "docs/", ".", "./", "docs/deep/.."):
        error = await files.refusal("read_file", path=path)
        assert error["code"] == "invalid_parameter"
        assert "'path'" in error["message"]
        assert "search_files" in error["suggestion"]


async def test_pipes_sockets_and_devices_are_refused_without_waiting(root: Path, files: FileClient) -> None:
    os.mkfifo(root / "pipe")
    # Made like this its path may be longer than one that is listened on.
    os.mknod(root / "socket", stat.S_IFSOCK | 0o600)
    names = ["pipe", "socket"]
    try:
        os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        names.append("zero")
    except PermissionError:
        pass  # only root may make a device; the two others are the same branch
    for name in names:
        assert await files.code(name) == "not_text"
    assert not {*names} & {*await files.paths("*")}
    assert (await files.search("o", content=True))["metadata"]["files_skipped"] == 0


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc on this system")
@pytest.mark.parametrize("root_path", ["/proc", "/proc/self", "/sys"])
async def test_a_root_that_the_kernel_makes_up_is_refused(root_path: str) -> None:
    async with file_client(root_path) as files:
        error = await files.refusal("read_file", path="version")
        assert error["code"] == "not_configured"
        assert "TOOLWEAVE_FILE_ROOTS" in error["message"]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc on this system")
async def test_files_that_the_kernel_makes_up_are_not_there_below_a_root_either() -> None:
    async with file_client("/") as files:
        for path in ("proc/self/environ", "/proc/version", "proc/self/root/etc/passwd", "sys/kernel/notes", "dev/pts"):
            assert await files.code(path) == "not_text"


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(LINES * 2, encoding="utf-8"),
        lambda path: path.write_text("", encoding="utf-8"),
        lambda path: path.unlink(),
        lambda path: os.truncate(path, 10),
    ],
    ids=["grows", "becomes empty", "is deleted", "shrinks"],
)
async def test_a_file_that_changes_between_two_parts_gives_what_is_there_then(
    root: Path, files: FileClient, change: Callable[[Path], Any]
) -> None:
    path = tree(root, {"log.txt": LINES}) / "log.txt"
    first = await files.call("read_file", path="log.txt", max_lines=50)
    change(path)
    second = await files.call("read_file", path="log.txt", start_line=first["metadata"]["next_line"])
    if path.exists() and path.stat().st_size > len(LINES):
        assert second["data"]["content"] == LINES.split("line 50\n", 1)[1] + LINES
    else:
        assert second["error"]["code"] in {"invalid_parameter", "not_found"}


@pytest.mark.parametrize("path", ["x" * 256, "x/" * 2048, "docs/" + "y" * 4000, "readme.md/x", "%2e%2e"])
async def test_an_absent_file_is_not_found_however_long_its_path_is(files: FileClient, path: str) -> None:
    error = await files.refusal("read_file", path=path)
    assert (error["type"], error["code"]) == ("not_found", "not_found")
    assert "search_files" in error["suggestion"]


async def test_no_descriptor_stays_open_after_any_answer(root: Path, files: FileClient) -> None:
    tree(root, {"bad.bin": b"\0", "pem.key": "hidden"})
    (root / "out").symlink_to("../outside")
    (root / "loop").symlink_to("loop")
    await files.read("readme.md")
    before = open_descriptors()
    for path in ("readme.md", "bad.bin", "docs", "docs/none", "pem.key", "out/secret.txt", "loop", "docs/../.."):
        await files.call("read_file", path=path)
    await files.search("*", limit=1)
    await files.search("e", content=True, limit=1)
    await files.call("search_files", pattern="*", directory="readme.md")
    assert open_descriptors() == before


AS_SOMEBODY_ELSE = """
import asyncio, json, os, sys
from tests.servers.core.files.file_client import file_client
async def main():
    async with file_client(sys.argv[1]) as files:
        await files.read("open.txt")
        await files.search("text", content=True)
        await files.refusal("read_file", path="none")
        # The superuser may read everything: from here on the server is somebody else, with all its code loaded.
        if os.geteuid() == 0:
            os.seteuid(65534)
        print(json.dumps([
            await files.refusal("read_file", path="closed.txt"),
            await files.refusal("read_file", path="shut/file.txt"),
            await files.search("*.txt"),
            await files.search("text", content=True),
        ]))
asyncio.run(main())
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user may enter; pytest closes its own again whenever another run of it begins."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_that_the_system_denies_is_an_error_without_a_path_and_is_skipped_by_searches(open_folder: Path) -> None:
    root = tree(open_folder / "root", {"closed.txt": "text", "open.txt": "text", "shut/file.txt": "text"})
    (root / "closed.txt").chmod(0)
    (root / "shut").chmod(0)
    command = [sys.executable, "-c", AS_SOMEBODY_ELSE, str(root)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=250, check=False)
    (root / "shut").chmod(0o700)
    assert ran.returncode == 0, ran.stderr
    closed, shut, by_name, by_content = json.loads(ran.stdout)
    for error in (closed, shut):
        assert (error["type"], error["code"]) == ("access", "access_denied")
        assert "/" not in error["message"] + error["suggestion"]
    assert [match["path"] for match in by_name["data"]] == ["closed.txt", "open.txt"]
    assert by_name["metadata"]["folders_unreadable"] == 1
    assert [match["path"] for match in by_content["data"]] == ["open.txt"]
    assert by_content["metadata"]["files_skipped"] == 1
