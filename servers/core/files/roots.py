"""Know the folders that may be read, and which of them a path means (C-05)."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolweave.servers.core.files.ignore_rules import is_at
from toolweave.servers.core.files.kernel_files import is_kernel_file_system
from toolweave.servers.core.files.refusals import no_roots, outside, unusable_root
from toolweave.servers.error_codes import ToolFailed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that may be read: its name in paths, where it is, and that with its symbolic links resolved.

    It may not be `private_folder`, in which Toolweave keeps its own data.
    """

    name: str
    path: str
    real_path: str
    private_folder: Path | None = None

    def open(self) -> int:
        """Open the folder.

        Raises:
            ToolFailed: it is not there, no folder, made up by the kernel, or our own.
        """
        try:
            folder = os.open(self.path, _FOLDER)
        except FileNotFoundError:
            raise unusable_root(self.name, "does not exist") from None
        except NotADirectoryError:
            raise unusable_root(self.name, "is not a folder") from None
        except OSError as error:
            raise unusable_root(self.name, f"cannot be opened: {error.strerror}") from None
        if problem := self._problem(os.fstat(folder)):
            os.close(folder)
            raise unusable_root(self.name, problem)
        return folder

    def _problem(self, info: os.stat_result) -> str | None:
        if is_kernel_file_system(info.st_dev):
            return "holds no files but a view into the kernel"
        if self.private_folder and is_at(self.private_folder, info):
            return "is the one in which Toolweave keeps its own data"
        return None


class Roots:
    """The operator's folders. Relative ones are taken from the working directory, once."""

    def __init__(self, folders: Iterable[str], *, private_folder: Path | None = None) -> None:
        self._roots: list[Root] = []
        for folder in dict.fromkeys(os.path.normpath(Path(folder).expanduser().absolute()) for folder in folders):
            name = self._free_name(Path(folder).name or "root")
            self._roots.append(Root(name, folder, os.path.realpath(folder), private_folder))

    @property
    def names(self) -> tuple[str, ...]:
        """The names with which paths begin where there are several roots."""
        return tuple(root.name for root in self._roots)

    def all(self) -> tuple[Root, ...]:
        """List the roots.

        Raises:
            ToolFailed: there is none.
        """
        if not self._roots:
            raise no_roots()
        return tuple(self._roots)

    def problems(self) -> tuple[str, ...]:
        """Say of every root that cannot be used why."""
        found: list[str] = []
        for root in self._roots:
            try:
                os.close(root.open())
            except ToolFailed as problem:
                found.append(str(problem))
        return tuple(found)

    def locate(self, path: str) -> tuple[Root, list[str]] | None:
        """Find the root that a path means and what of the path is left; None means the folder above several roots.

        Raises:
            ToolFailed: there is no root, or the path is in none.
        """
        roots = self.all()
        if path.startswith("/"):
            return self.locate_absolute(path)
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if len(roots) == 1:
            return roots[0], parts
        if not parts:
            return None
        for root in roots:
            if root.name == parts[0]:
                return root, parts[1:]
        raise outside(self.names)

    def locate_absolute(self, path: str) -> tuple[Root, list[str]]:
        """Find the root below which an absolute path is, as it is written.

        Raises:
            ToolFailed: it is below none.
        """
        parts = [part for part in path.split("/") if part not in {"", "."}]
        places = [(root, _parts(place)) for root in self._roots for place in (root.path, root.real_path)]
        # The innermost root first, so that a root within another answers under its own name.
        for root, place in sorted(places, key=lambda found: -len(found[1])):
            if parts[: len(place)] == place:
                return root, parts[len(place) :]
        raise outside(self.names)

    def shown(self, root: Root, parts: Iterable[str]) -> str:
        """Write a path as answers show it and calls may use it."""
        path = "/".join((root.name, *parts) if len(self._roots) > 1 else tuple(parts)) or "."
        # A name that is no UTF-8 cannot be written in JSON; it is shown with marks in place of its strange bytes.
        return os.fsencode(path).decode("utf-8", "replace")

    def _free_name(self, name: str) -> str:
        taken, number = self.names, 2
        free = name
        while free in taken:
            free = f"{name}-{number}"
            number += 1
        return free


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
