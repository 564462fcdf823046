"""Files are found by name and by the text in them, in one order, within limits that the answer names."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.servers.core.files.file_client import FileClient, file_client, tree
from toolweave.servers.core.files.reading import CallBudget
from toolweave.servers.core.files.roots import Roots
from toolweave.servers.core.files.tools import FileSearch, run_in_thread


@pytest.mark.parametrize(
    ("pattern", "directory", "expected"),
    [
        ("*.md", ".", ["docs/deep/er/notes.md", "docs/setup.md", "readme.md"]),
        ("*.md", "docs", ["docs/deep/er/notes.md", "docs/setup.md"]),
        ("docs/**/*.md", ".", ["docs/deep/er/notes.md", "docs/setup.md"]),
        ("**/er/*", "docs", ["docs/deep/er/notes.md"]),
        ("er/*", "docs", []),
        ("./*.md", ".", ["docs/deep/er/notes.md", "docs/setup.md", "readme.md"]),
        ("docs/", ".", ["docs/deep/er/notes.md", "docs/setup.md"]),
        ("**", "src", ["src/empty.py", "src/main.py"]),
        ("main", ".", []),
        ("*main*", ".", ["src/main.py"]),
        ("[a-m]*.py", ".", ["src/empty.py", "src/main.py"]),
        ("../*", "docs", []),
        ("/etc/*", ".", []),
        ("*.MD", ".", []),
    ],
)
async def test_names_are_found_by_globs(files: FileClient, pattern: str, directory: str, expected: list[str]) -> None:
    assert await files.paths(pattern, directory=directory) == expected


async def test_an_answer_tells_sizes_and_how_far_the_search_came(files: FileClient) -> None:
    answer = await files.search("*.py", directory="src")
    assert answer["data"] == [{"path": "src/empty.py", "size_bytes": 0}, {"path": "src/main.py", "size_bytes": 39}]
    del answer["metadata"]["duration_ms"]
    assert answer["metadata"] == {
        "count": 2,
        "truncated": False,
        "stopped_by": None,
        "files_searched": 2,
        "files_skipped": 0,
        "folders_unreadable": 0,
        "unusable_roots": [],
    }


async def test_letters_may_count_as_the_same(files: FileClient) -> None:
    assert await files.paths("READ*", ignore_case=True) == ["readme.md"]
    assert await files.paths("HELLO", content=True) == []
    assert await files.paths("HELLO", content=True, ignore_case=True) == ["readme.md", "src/main.py"]


async def test_text_is_found_with_its_line(files: FileClient) -> None:
    answer = await files.search("Hello", content=True)
    assert answer["data"] == [
        {"path": "readme.md", "line": 3, "text": "Hello world."},
        {"path": "src/main.py", "line": 2, "text": "    print('Hello')"},
    ]
    assert await files.paths("Hello", content=True, files="*.py") == ["src/main.py"]
    assert await files.paths("Hello", content=True, files="src/**") == ["src/main.py"]
    assert await files.paths("Hello", content=True, directory="docs") == []


async def test_text_is_taken_literally(root: Path, files: FileClient) -> None:
    text = r".*  (a+)+$ [x] \d %s {0} $(id) ; ' \" < ü 🦷"
    tree(root, {"odd.txt": f"first\n{text}\r\nlast"})
    assert (await files.search(text, content=True))["data"] == [{"path": "odd.txt", "line": 2, "text": text}]
    for part in (".*", "(a+)+$", "[x]", r"\d", "ü 🦷"):
        assert await files.paths(part, content=True) == ["odd.txt"]
    assert await files.paths("^last", content=True) == []


async def test_every_line_with_the_text_is_one_match_and_a_long_line_is_cut_around_it(
    root: Path, files: FileClient
) -> None:
    tree(root, {"long.txt": "x" * 5000 + "needle" + "y" * 5000 + "needle\n" + "needle" + "z" * 300 + "\nneedle\n"})
    first, second, third = (await files.search("needle", content=True))["data"]
    assert first["text"] == "…" + "x" * 60 + "needle" + "y" * 134 + "…"
    assert second["text"] == "needle" + "z" * 194 + "…"
    assert third == {"path": "long.txt", "line": 3, "text": "needle"}


async def test_text_is_found_in_unicode_files_and_what_is_no_text_or_too_large_is_skipped(root: Path) -> None:
    tree(
        root,
        {
            "16.txt": "Grüße\nneedle".encode("utf-16"),
            "mark.txt": b"\xef\xbb\xbfneedle at the start",
            "binary.bin": b"needle\0",
            "latin.txt": b"needle Gr\xfc\xdfe",
            "large.txt": "needle" + "x" * 2000,
        },
    )
    async with file_client(root, file_max_bytes=2000) as files:
        answer = await files.search("needle", content=True)
        assert [(match["path"], match["line"], match["text"]) for match in answer["data"]] == [
            ("16.txt", 2, "needle"),
            ("mark.txt", 1, "needle at the start"),
        ]
        assert answer["metadata"]["files_skipped"] == 3
        assert answer["metadata"]["truncated"] is False


async def test_no_more_than_the_limit_is_answered_and_the_answer_says_so(root: Path, files: FileClient) -> None:
    tree(root / "many", {f"{number:03}.txt": "needle\nneedle\n" for number in range(150)})
    answer = await files.search("*.txt")
    assert [match["path"] for match in answer["data"]] == [f"many/{number:03}.txt" for number in range(100)]
    assert (answer["metadata"]["truncated"], answer["metadata"]["stopped_by"]) == (True, "results")
    answer = await files.search("*.txt", limit=150)
    assert (answer["metadata"]["count"], answer["metadata"]["truncated"]) == (150, False)
    answer = await files.search("needle", content=True, limit=3)
    assert [(match["path"], match["line"]) for match in answer["data"]] == [
        ("many/000.txt", 1),
        ("many/000.txt", 2),
        ("many/001.txt", 1),
    ]


async def test_paths_come_sorted_part_by_part(root: Path, files: FileClient) -> None:
    tree(root, dict.fromkeys(("b/2", "b/10", "a-b/x", "a/z", "a/B", "a.txt", "ä/1", "Z"), ""))
    found = await files.paths("*")
    assert found == sorted(found, key=lambda path: path.split("/"))


async def test_links_are_passed_by_so_that_loops_end_and_nothing_is_found_twice(root: Path, files: FileClient) -> None:
    (root / "docs/up").symlink_to("..")
    (root / "docs/self").symlink_to("self")
    (root / "again.md").symlink_to("readme.md")
    (root / "away").symlink_to("../outside")
    assert await files.paths("*.md") == ["docs/deep/er/notes.md", "docs/setup.md", "readme.md"]
    assert await files.paths("secret*") == []
    assert await files.paths("*.md", directory="docs/up/docs") == ["docs/deep/er/notes.md", "docs/setup.md"]


async def test_a_tree_deeper_than_is_searched_ends_the_way_down(root: Path, files: FileClient) -> None:
    folder = root
    for _ in range(70):
        folder = folder / "d"
        folder.mkdir()
        (folder / "file.txt").touch()
    assert len(await files.paths("file.txt")) == 64
    assert await files.code("d/" * 70 + "file.txt") == "not_found"
    assert await files.read("d/" * 63 + "file.txt") == ""


async def test_names_that_are_no_unicode_are_shown_with_marks_and_never_break_an_answer(
    root: Path, files: FileClient
) -> None:
    odd = (b"caf\xe9.txt", b"\xff\xfe", b"new\nline.txt", b'quote".txt', b"\x01.txt", "e\u0301.txt".encode())
    tree(root, {os.fsdecode(name): "needle\n" for name in odd})
    names = {"caf�.txt", "��", "new\nline.txt", 'quote".txt', "\x01.txt", "e\u0301.txt"}
    assert names <= set(await files.paths("*"))
    assert set(await files.paths("needle", content=True)) == names
    for name in ("new\nline.txt", 'quote".txt', "\x01.txt", "e\u0301.txt"):
        assert await files.read(name) == "needle\n"
    for name in ("caf�.txt", "é.txt"):  # the second looks like e\u0301.txt and is another name
        assert await files.code(name) == "not_found"


async def test_a_directory_that_is_a_file_or_absent_is_refused(files: FileClient) -> None:
    error = await files.refusal("search_files", pattern="*", directory="readme.md")
    assert error["message"] == "Parameter 'directory' must be a folder; this is a file."
    error = await files.refusal("search_files", pattern="*", directory="none")
    assert error["code"] == "not_found"
    error = await files.refusal("search_files", pattern="*", directory="..")
    assert error["code"] == "forbidden_path"


@pytest.mark.requirement("C-07")
@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("read_file", {"path": "x" * 4097}, "'path' must have 4096 or fewer characters"),
        ("read_file", {"path": "a", "start_line": 0}, "'start_line' must be at least 1"),
        ("read_file", {"path": "a", "start_line": "1"}, "'start_line' must be a whole number"),
        ("read_file", {"path": "a", "max_lines": True}, "'max_lines' must be a whole number"),
        ("search_files", {}, "'pattern' is required"),
        ("search_files", {"pattern": "x" * 501}, "'pattern' must have 500 or fewer characters"),
        ("search_files", {"pattern": "a\nb", "content": True}, "'pattern' must be a single line"),
        ("search_files", {"pattern": "a", "directory": ""}, "'directory' must have 1 or more"),
        ("search_files", {"pattern": "a", "directory": "\0"}, "without NUL"),
        ("search_files", {"pattern": "a", "content": "true"}, "'content' must be true or false"),
        ("search_files", {"pattern": "a", "files": "*.py"}, "'files' must be left out unless content is true"),
        ("search_files", {"pattern": "a", "limit": 1001}, "'limit' must be at most 1000"),
        ("search_files", {"pattern": "a", "ignore_case": 1}, "'ignore_case' must be true or false"),
    ],
)
async def test_an_error_names_the_invalid_parameter_and_what_it_must_be(
    files: FileClient, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    error = await files.refusal(tool, **arguments)
    assert error["type"] == "validation"
    assert expected in error["message"]


def search(root: Path, budget: CallBudget, pattern: str = "*", *, content: bool = False) -> list[dict[str, Any]]:
    roots = Roots([str(root)], private_folder=root / "none")
    return FileSearch(roots=roots, budget=budget, max_bytes=1_000_000, pattern=pattern, content=content).run()


def budget(*, seconds: float = 60, files: int = 10**6, content_bytes: int = 10**9) -> CallBudget:
    return CallBudget(seconds=seconds, files=files, content_bytes=content_bytes)


def test_a_search_that_is_stopped_early_answers_its_matches_and_the_reason(root: Path) -> None:
    cancelled = budget()
    cancelled.cancel()
    assert search(root, cancelled) == []
    assert cancelled.stop_reason == "cancelled"
    late = budget(seconds=0)
    assert search(root, late) == []
    assert late.stop_reason == "time"
    few = budget(files=4)
    assert len(search(root, few)) < 5
    assert few.stop_reason == "files"
    little = budget(content_bytes=30)
    assert [match["path"] for match in search(root, little, "e", content=True)] == ["docs/deep/er/notes.md"]
    assert little.stop_reason == "bytes"


async def test_a_call_that_is_cancelled_ends_after_its_work_on_the_thread_has_ended() -> None:
    shared, started, ended = budget(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        while shared.consume():
            time.sleep(0.001)
        ended.set()

    call = asyncio.create_task(run_in_thread(work, shared))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()
    assert shared.stop_reason == "cancelled"


@pytest.mark.slow
async def test_the_names_of_fifty_thousand_files_are_searched_within_the_limit(tmp_path: Path) -> None:
    for folder in range(500):
        tree(tmp_path / f"{folder % 20}/{folder}", {f"{number}.txt": "" for number in range(100)})
    async with file_client(tmp_path) as files:
        answer = await files.search("**/499/9?.txt")
    assert answer["metadata"]["files_searched"] == 50_000
    assert (answer["metadata"]["stopped_by"], answer["metadata"]["count"]) == (None, 10)
