"""Install the program behind an external server into the data folder, whole or not at all (C-09).

Below `<data_dir>/servers`, `node_modules`, `git`, `fetch` and `time` are links into `installed/`, where each version
has a folder of its own: a link is set when its folder is complete, so that what was interrupted is never started, and
a server that is running keeps the files it was started from.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolweave.errors import ConfigError
from toolweave.private_files import make_file, make_folder
from toolweave.servers.external.catalogue import Installation
from toolweave.servers.external.package_tools import LIMIT_S, PackageTools

Say = Callable[[str], None]
_LOOK_AGAIN_S = 0.1


def is_installed(installation: Installation, data_dir: Path) -> bool:
    """Tell whether the pinned version is installed in the data folder, completely."""
    servers = _servers(data_dir)
    target = _target(installation, servers)
    link = servers / installation.name
    # A virtual environment is of no use without the interpreter it was made with.
    needed = [servers / installation.program]
    if installation.kind == "python":
        needed.append(link / "bin" / "python")
    return link.is_symlink() and link.readlink() == target and all(path.exists() for path in needed)


def install(
    installation: Installation, data_dir: Path, say: Say, *, path: str | None = None, limit_s: float = LIMIT_S
) -> None:
    """Install it unless it is there already; what of it was begun before and not finished is done anew.

    One process at a time does so. `say` is told what happens. `path` is where npm, node and uv are looked for (default:
    PATH); `limit_s` bounds each of their commands, and the wait for another process.

    Raises:
        ConfigError: no npm, it failed, the folder cannot be written, …; says what to do.
    """
    servers = _servers(data_dir)
    try:
        make_folder(servers)
        with _alone(servers, say, limit_s) as lock_fd:
            if is_installed(installation, data_dir):
                say(f"{installation.package} {installation.version} is installed.")
                return
            _clear(installation, servers)
            _fill(installation, servers, say, PackageTools(lock_fd, path=path, limit_s=limit_s))
    except OSError as error:
        raise ConfigError(
            f"{installation.package} cannot be installed: {error}.",
            source=str(servers),
            fix="Make the folder writable, with room for some 200 MB.",
        ) from error


def _fill(installation: Installation, servers: Path, say: Say, tools: PackageTools) -> None:
    target = _target(installation, servers)
    folder = servers / target.parts[0] / target.parts[1]
    folder.mkdir(parents=True)
    if installation.kind == "npm":
        say("Installing the servers that npm has (some 140 MB) …")
        tools.install_npm(installation.lock, folder)
    else:
        say(f"Installing {installation.package} {installation.version} in an environment of its own …")
        tools.install_python(installation.lock, folder)
    coming = servers / f".{installation.name}"
    coming.unlink(missing_ok=True)
    coming.symlink_to(target)
    coming.replace(servers / installation.name)
    say(f"Installed {installation.package} {installation.version}.")


def _clear(installation: Installation, servers: Path) -> None:
    """Remove what is neither in use nor complete, and what was not put there by us under the name of our link."""
    link = servers / installation.name
    in_use = link.resolve() if link.is_symlink() and _target(installation, servers) != link.readlink() else None
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    for folder in (servers / "installed").glob(f"{installation.name}-*"):
        if in_use is None or not in_use.is_relative_to(folder.resolve()):
            shutil.rmtree(folder)


def _servers(data_dir: Path) -> Path:
    return data_dir.absolute() / "servers"


def _target(installation: Installation, servers: Path) -> Path:
    """Give where the link of a complete installation leads, relative to `servers`."""
    key = hashlib.sha256(installation.lock.read_bytes())
    if installation.kind == "python":
        # Its programs name their interpreter by its absolute path: moved, it is to be made anew.
        key.update(os.fsencode(servers))
    folder = Path("installed", f"{installation.name}-{key.hexdigest()[:12]}")
    return folder / "node_modules" if installation.kind == "npm" else folder


@contextmanager
def _alone(servers: Path, say: Say, limit_s: float) -> Iterator[int]:
    """Hold the lock on `servers`; gives its file descriptor."""
    deadline = time.monotonic() + limit_s
    told = False
    lock = servers / "installing.lock"
    make_file(lock)
    with lock.open("a", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"another process has been installing servers for {limit_s:g} s.",
                        source=str(servers),
                        fix="End it, and try again.",
                    ) from None
            if not told:
                say("Waiting for another process that installs servers …")
                told = True
            time.sleep(_LOOK_AGAIN_S)
        yield file.fileno()
