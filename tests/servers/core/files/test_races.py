"""Whatever changes while a path is opened, no byte from outside the roots is answered."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.core.files.attacks import hostile_tree
from tests.servers.core.files.file_client import SECRET, tree
from tests.servers.core.files.place import Place


@contextmanager
def in_turn(*steps: Callable[[], Path]) -> Iterator[None]:
    """Do the steps one after another, again and again, on a thread."""
    ending = threading.Event()

    def turn() -> None:
        while not ending.is_set():
            for step in steps:
                step()

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def swapping(place: Path, inside: Path, link: Path) -> Iterator[Callable[[], Path]]:
    """Put a file or folder and a link to the outside in the same place by turns."""
    yield lambda: inside.rename(place)
    yield lambda: place.rename(inside)
    yield lambda: link.rename(place)
    yield lambda: place.rename(link)


@pytest.mark.parametrize("path", ["place", "place/secret.txt", "docs/up/place/secret.txt", "around"])
async def test_a_path_that_changes_while_it_is_opened_never_shows_the_outside(tmp_path: Path, path: str) -> None:
    root = hostile_tree(tmp_path)
    place, inside, link = root / "place", root / "inside", root / "link"
    if path == "place":
        inside.write_text("inside", encoding="utf-8")
        link.symlink_to("../outside/secret.txt")
    else:
        tree(inside, {"secret.txt": "inside"})
        link.symlink_to("../outside")
    (root / "around").symlink_to("docs/../place/secret.txt")
    with in_turn(*swapping(place, inside, link)):
        await until_both_were_seen(Place(root), path)


async def until_both_were_seen(place: Place, path: str) -> None:
    shown = refused = 0
    for _ in range(50_000):
        answer = await place.read(path)
        if answer["status"] == "success":
            shown += 1
            assert answer["data"]["content"] == "inside"
        else:
            refused += answer["error"]["code"] == "forbidden_path"
        if shown >= 50 and refused >= 50:
            return
    pytest.fail(f"shown {shown} times, refused {refused} times")


async def test_a_search_of_a_tree_that_changes_never_shows_the_outside(tmp_path: Path) -> None:
    root = hostile_tree(tmp_path)
    inside, link = tree(root / "inside", {"secret.txt": "inside"}), root / "link"
    link.symlink_to("../outside")
    tools, found = Place(root), set()
    with in_turn(*swapping(root / "place", inside, link)):
        for _ in range(20_000):
            found |= {match["path"] for match in (await tools.search(pattern="i", content=True))["data"]}
            if {"place/secret.txt", "inside/secret.txt"} <= found:
                return
    pytest.fail(f"found {found}")


class JustBeforeOpening:
    """Do something once, in the last moment before a name is opened."""

    def __init__(self) -> None:
        self._armed: dict[str, Callable[[], None]] = {}
        # It cannot be taken away again, so there is one for all tests.
        sys.addaudithook(self._hear)

    def do(self, name: str, action: Callable[[], None]) -> None:
        self._armed[name] = action

    @property
    def all_done(self) -> bool:
        return not self._armed

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._armed and event == "open" and (action := self._armed.pop(str(arguments[0]), None)):
            action()


@pytest.fixture(scope="session")
def just_before_opening() -> JustBeforeOpening:
    return JustBeforeOpening()


@pytest.mark.parametrize(
    ("path", "swapped", "target"),
    [
        ("readme.md", "readme.md", "../outside/secret.txt"),
        ("docs/deep/notes.md", "docs", "../outside"),
        ("docs/deep/notes.md", "docs/deep", "../../outside/deep"),
        ("docs/deep/notes.md", "docs/deep/notes.md", "../../.env"),
        ("inner", "docs/setup.md", "../../outside/secret.txt"),
    ],
)
async def test_what_becomes_a_link_in_the_last_moment_is_not_followed(
    tmp_path: Path, just_before_opening: JustBeforeOpening, path: str, swapped: str, target: str
) -> None:
    root = hostile_tree(tmp_path)
    tree(tmp_path / "outside", {"deep/notes.md": SECRET})
    tools = Place(root)

    def swap() -> None:
        (root / swapped).rename(root / "aside")
        (root / swapped).symlink_to(target)

    just_before_opening.do(Path(swapped).name, swap)
    answer = await tools.read(path)
    assert just_before_opening.all_done
    assert answer["status"] == "error"
    assert answer["error"]["code"] == "not_found"


async def test_a_folder_that_is_moved_out_while_it_is_passed_leads_nowhere_else(
    tmp_path: Path, just_before_opening: JustBeforeOpening
) -> None:
    root = hostile_tree(tmp_path)
    outside = tmp_path / "outside/docs"

    def move() -> None:
        (root / "docs").rename(outside)

    just_before_opening.do("deep", move)
    answer = await Place(root).read("docs/deep/../../secret.txt")
    assert just_before_opening.all_done
    # The kernel's own .. of the folder is the outside now; ours is the folder we came from.
    assert answer["error"]["code"] == "not_found"
