"""Install the servers of other projects that mcp.servers.jsonc has entries for, whole or not at all (C-09, D-13).

Below `<data_dir>/servers`, `node_modules`, `git`, `fetch` and `time` are links into `installed/`, where each version
has a folder of its own: a link is set when its folder is complete, so that what was interrupted is never started, and
a server that is running keeps the files it was started from.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from toolweave.config.mcp import SHIPPED_MCP_CONFIG
from toolweave.errors import ConfigError
from toolweave.files import locked_folder, make_folder
from toolweave.redact import redact_text

# package.json and package-lock.json, and for each Python server a list of everything it needs, with hashes.
PINNED_DIR = SHIPPED_MCP_CONFIG.parent / "external_servers"
# Entry: package, and the program it brings.
_NPM_PROGRAMS = {
    "firecrawl": ("firecrawl-mcp", "firecrawl-mcp"),
    "brave": ("@brave/brave-search-mcp-server", "brave-search-mcp-server"),
    "supabase": ("@supabase/mcp-server-supabase", "mcp-server-supabase"),
    "filesystem": ("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"),
    "git-files": ("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"),
    "memory": ("@modelcontextprotocol/server-memory", "mcp-server-memory"),
    "thinking": ("@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking"),
    "everything": ("@modelcontextprotocol/server-everything", "mcp-server-everything"),
}
_PYTHON_PACKAGES = {"git": "mcp-server-git", "fetch": "mcp-server-fetch", "time": "mcp-server-time"}
TIMEOUT_S = 600.0
# Two packages ask for a newer Node than the oldest that they are tested with here.
_NPM_CI_ARGS = (
    "ci",
    "--ignore-scripts",
    "--omit=dev",
    "--engine-strict=false",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
)
# Its own waits before a second and third try are 10 and 60 s.
_NPM_RETRY_ARGS = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
# npm says first what is wrong, pip last.
_MAX_OUTPUT_CHARS = 400
_RETRY_FIX = "Make sure that this machine reaches the package registry, and try again; nothing half installed is used."
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installation:
    """A package and its pinned version; `program` is a path below `<data_dir>/servers`, `lock` what is pinned.

    `name` is what it is installed as there: all npm packages are one installation, every Python server is its own.
    """

    kind: Literal["npm", "python"]
    package: str
    version: str
    name: str
    program: Path
    lock: Path


def installation_of(entry_name: str) -> Installation | None:
    """Find what an entry of mcp.servers.jsonc starts; None for a server that needs no installation, or is unknown."""
    if entry_name in _NPM_PROGRAMS:
        package, program = _NPM_PROGRAMS[entry_name]
        path = Path("node_modules", ".bin", program)
        versions = json.loads((PINNED_DIR / "package.json").read_text(encoding="utf-8"))["dependencies"]
        return Installation("npm", package, versions[package], "node_modules", path, PINNED_DIR / "package-lock.json")
    if entry_name in _PYTHON_PACKAGES:
        package = _PYTHON_PACKAGES[entry_name]
        lock = PINNED_DIR / f"{package}.txt"
        path = Path(entry_name, "bin", package)
        pinned = re.search(rf"^{package}==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
        return Installation("python", package, pinned[1] if pinned else "?", entry_name, path, lock)
    return None


@dataclass(frozen=True, slots=True)
class PackageInstaller:
    """Run the installers; children keep `lock_fd` open, and with it the lock, when this process is killed."""

    lock_fd: int
    path: str | None
    timeout_s: float

    def install_npm(self, lock: Path, folder: Path) -> None:
        """Install a package-lock.json, and the package.json beside it, as `folder`/node_modules.

        Raises:
            ConfigError: npm is absent, fails or takes too long; says what to do.
        """
        npm = shutil.which("npm", path=self.path)
        if npm is None or shutil.which("node", path=self.path) is None:
            raise ConfigError(
                "npm was not found, which installs this server; it comes with Node.",
                fix="Install Node 20 or newer, so that `npm --version` answers in this terminal, and try again.",
            )
        for name in ("package.json", lock.name):
            shutil.copyfile(lock.with_name(name), folder / name)
        self._run("npm ci", [npm, *_NPM_CI_ARGS, *_NPM_RETRY_ARGS], folder)

    def install_python(self, lock: Path, folder: Path) -> None:
        """Install a requirements file with hashes into a virtual environment of its own, `folder`; by uv if there.

        Raises:
            ConfigError: neither uv nor pip is there, or one fails or takes too long; says what to do.
        """
        uv = shutil.which("uv", path=self.path)
        if uv is None and self.path is None:
            uv = shutil.which("uv", path=str(Path(sys.executable).parent))
        python = str(folder / "bin" / "python")
        pinned = ("--require-hashes", "--only-binary", ":all:")
        if uv is not None:
            self._run("uv venv", [uv, "venv", "--quiet", "--python", sys.executable, str(folder)], folder)
            sync = [uv, "pip", "sync", "--quiet", "--compile-bytecode", "--python", python]
            self._run("uv pip sync", [*sync, *pinned, str(lock)], folder)
            return
        self._run("python -m venv", [sys.executable, "-m", "venv", str(folder)], folder)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        self._run("pip install", [*pip, *pinned, "--requirement", str(lock)], folder)

    def _run(self, label: str, command: Sequence[str], folder: Path) -> None:
        try:
            completed = subprocess.run(  # noqa: S603 - no shell, and every word of it is ours
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.timeout_s,
                encoding="utf-8",
                errors="replace",
                pass_fds=(self.lock_fd,),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"`{label}` took longer than {self.timeout_s:g} s.", fix=_RETRY_FIX) from None
        if completed.returncode:
            raise ConfigError(f"`{label}` failed: {_output_excerpt(completed.stdout)}\n", fix=_RETRY_FIX)


def _output_excerpt(output: str) -> str:
    """Give the beginning and the end of what an installer said, without credentials."""
    text = redact_text(output.strip()) or "it said nothing."
    return text if len(text) <= 2 * _MAX_OUTPUT_CHARS else f"{text[:_MAX_OUTPUT_CHARS]} … {text[-_MAX_OUTPUT_CHARS:]}"


def is_installed(installation: Installation, data_dir: Path) -> bool:
    """Tell whether the pinned version is installed in the data folder, completely."""
    servers = _servers_folder(data_dir)
    target = _link_target(installation, servers)
    link = servers / installation.name
    # A virtual environment is of no use without the interpreter it was made with.
    needed = [servers / installation.program]
    if installation.kind == "python":
        needed.append(link / "bin" / "python")
    return link.is_symlink() and link.readlink() == target and all(path.exists() for path in needed)


def install(
    installation: Installation, data_dir: Path, report: Report, *, path: str | None = None, timeout_s: float = TIMEOUT_S
) -> None:
    """Install it unless it is there already; what of it was begun before and not finished is done anew.

    One process at a time does so. `say` is told what happens. `path` is where npm, node and uv are looked for (default:
    PATH); `limit_s` bounds each of their commands.

    Raises:
        ConfigError: no npm, it failed, the folder cannot be written, …; says what to do.
    """
    servers = _servers_folder(data_dir)
    try:
        make_folder(servers)
        waiting = partial(report, "Waiting for another process that installs servers …")
        with locked_folder(servers, waiting) as lock_fd:
            if is_installed(installation, data_dir):
                report(f"{installation.package} {installation.version} is installed.")
                return
            _remove_leftovers(installation, servers)
            _install_and_link(installation, servers, report, PackageInstaller(lock_fd, path, timeout_s))
    except OSError as error:
        raise ConfigError(
            f"{installation.package} cannot be installed: {error}.",
            source=str(servers),
            fix="Make the folder writable, with room for some 200 MB.",
        ) from error


def _install_and_link(installation: Installation, servers: Path, report: Report, installer: PackageInstaller) -> None:
    target = _link_target(installation, servers)
    folder = servers / target.parts[0] / target.parts[1]
    folder.mkdir(parents=True)
    if installation.kind == "npm":
        report("Installing the servers that npm has (some 140 MB) …")
        installer.install_npm(installation.lock, folder)
    else:
        report(f"Installing {installation.package} {installation.version} in an environment of its own …")
        installer.install_python(installation.lock, folder)
    new_link = servers / f".{installation.name}"
    new_link.unlink(missing_ok=True)
    new_link.symlink_to(target)
    new_link.replace(servers / installation.name)
    report(f"Installed {installation.package} {installation.version}.")


def _remove_leftovers(installation: Installation, servers: Path) -> None:
    """Remove what is neither in use nor complete, and what was not put there by us under the name of our link."""
    link = servers / installation.name
    in_use = link.resolve() if link.is_symlink() and _link_target(installation, servers) != link.readlink() else None
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    for folder in (servers / "installed").glob(f"{installation.name}-*"):
        if in_use is None or not in_use.is_relative_to(folder.resolve()):
            shutil.rmtree(folder)


def _servers_folder(data_dir: Path) -> Path:
    return data_dir.absolute() / "servers"


def _link_target(installation: Installation, servers: Path) -> Path:
    """Give where the link of a complete installation leads, relative to `servers`."""
    key = hashlib.sha256(installation.lock.read_bytes())
    if installation.kind == "python":
        # Its programs name their interpreter by its absolute path: moved, it is to be made anew.
        key.update(os.fsencode(servers))
    folder = Path("installed", f"{installation.name}-{key.hexdigest()[:12]}")
    return folder / "node_modules" if installation.kind == "npm" else folder
