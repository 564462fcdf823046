"""Install the servers of other projects that mcp.servers.jsonc has entries for, completely or not at all (C-09, D-13).

In `<data_dir>/servers`, `node_modules`, `git`, `fetch` and `time` are links into `installed/`, which has one folder for
each version. The installer sets a link when its folder is complete. So an interrupted installation is never started,
and a running server keeps the files that it was started from.
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
from toolweave.files import lock_folder, make_folder
from toolweave.redact import redact_text

# Contains package.json, package-lock.json and, for each Python server, its requirements with hashes.
PINNED_DIR = SHIPPED_MCP_CONFIG.parent / "external_servers"
# Entry of mcp.servers.jsonc: (package, program).
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
# Of each command of npm, uv or pip.
TIMEOUT_S = 600.0
# No strict engine check: two packages require a newer Node than the oldest one that we test them with.
_NPM_CI_ARGS = (
    "ci",
    "--ignore-scripts",
    "--omit=dev",
    "--engine-strict=false",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
)
# By default npm waits 10 s before its second attempt and 60 s before its third.
_NPM_RETRY_ARGS = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
# Of the beginning and of the end: npm prints the cause first, pip last.
_MAX_OUTPUT_CHARS = 400
_RETRY_FIX = "Check that this machine reaches the package registry, and try again; a partial installation is not used."
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installation:
    """A package and its pinned version. `program` is a path below `<data_dir>/servers`, `lock` the lock file.

    `name` is the name of its link there. All npm packages share one installation; each Python server has its own.
    """

    kind: Literal["npm", "python"]
    package: str
    version: str
    name: str
    program: Path
    lock: Path


def installation_of(entry_name: str) -> Installation | None:
    """Return the installation of an entry of mcp.servers.jsonc; None if the entry is unknown or needs none."""
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
    """Run npm, uv or pip. The child inherits `lock_fd`, so it holds the lock even if this process is killed."""

    lock_fd: int
    path: str | None
    timeout_s: float

    def install_npm(self, lock: Path, folder: Path) -> None:
        """Install a package-lock.json, with the package.json beside it, into `folder`/node_modules.

        Raises:
            ConfigError: npm is absent, fails or times out; the message contains the fix.
        """
        npm = shutil.which("npm", path=self.path)
        if npm is None or shutil.which("node", path=self.path) is None:
            raise ConfigError(
                "npm was not found; it is needed to install this server and comes with Node.",
                fix="Install Node 20 or newer, so that `npm --version` answers in this terminal, and try again.",
            )
        for name in ("package.json", lock.name):
            shutil.copyfile(lock.with_name(name), folder / name)
        self._run("npm ci", [npm, *_NPM_CI_ARGS, *_NPM_RETRY_ARGS], folder)

    def install_python(self, lock: Path, folder: Path) -> None:
        """Install a requirements file with hashes into the new virtual environment `folder`, by uv or else by pip.

        Raises:
            ConfigError: neither uv nor pip is installed, or one fails or times out; the message contains the fix.
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
    """Return the beginning and the end of an installer's output, without credentials."""
    text = redact_text(output.strip()) or "it printed nothing."
    return text if len(text) <= 2 * _MAX_OUTPUT_CHARS else f"{text[:_MAX_OUTPUT_CHARS]} … {text[-_MAX_OUTPUT_CHARS:]}"


def is_installed(installation: Installation, data_dir: Path) -> bool:
    """Return whether the pinned version is completely installed in the data folder."""
    servers = _servers_folder(data_dir)
    target = _link_target(installation, servers)
    link = servers / installation.name
    # A virtual environment does not work without the interpreter that created it.
    needed = [servers / installation.program]
    if installation.kind == "python":
        needed.append(link / "bin" / "python")
    return link.is_symlink() and link.readlink() == target and all(path.exists() for path in needed)


def install(
    installation: Installation, data_dir: Path, report: Report, *, path: str | None = None, timeout_s: float = TIMEOUT_S
) -> None:
    """Install a package, unless its pinned version is installed; replace an incomplete installation.

    A lock lets one process install at a time. `report` receives the progress messages. npm, node and uv are searched in
    `path` (default: PATH); each of their commands is stopped after `timeout_s`.

    Raises:
        ConfigError: npm is absent or failed, the folder is not writable, …; the message contains the fix.
    """
    servers = _servers_folder(data_dir)
    try:
        make_folder(servers)
        waiting = partial(report, "Waiting for another process that installs servers …")
        with lock_folder(servers, waiting) as lock_fd:
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
    """Remove folders of other versions that no link uses, incomplete ones, and a real folder in place of our link."""
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
    """Return the link target of a complete installation, relative to `servers`."""
    key = hashlib.sha256(installation.lock.read_bytes())
    if installation.kind == "python":
        # Its scripts contain the interpreter's absolute path, so a moved data folder needs a new environment.
        key.update(os.fsencode(servers))
    folder = Path("installed", f"{installation.name}-{key.hexdigest()[:12]}")
    return folder / "node_modules" if installation.kind == "npm" else folder
