"""Run npm, uv or pip to install exactly what is pinned, into a folder given."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from toolweave.errors import ConfigError
from toolweave.redact import redact_text

LIMIT_S = 600.0
# Two packages ask for a newer Node than the oldest that they are tested with here.
_NPM_CI = (
    "ci",
    "--ignore-scripts",
    "--omit=dev",
    "--engine-strict=false",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
)
# Its own waits before a second and third try are 10 and 60 s.
_NPM_RETRIES = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
# npm says first what is wrong, pip last.
_TOLD_CHARACTERS = 400
_AGAIN = "Make sure that this machine reaches the package registry, and try again; nothing half installed is used."


class PackageTools:
    """Run the installers; children keep `lock_fd` open, and with it the lock, when this process is killed."""

    def __init__(self, lock_fd: int, *, path: str | None = None, limit_s: float = LIMIT_S) -> None:
        self._lock_fd = lock_fd
        self._path = path
        self._limit_s = limit_s

    def install_npm(self, lock: Path, folder: Path) -> None:
        """Install a package-lock.json, and the package.json beside it, as `folder`/node_modules.

        Raises:
            ConfigError: npm is absent, fails or takes too long; says what to do.
        """
        npm = shutil.which("npm", path=self._path)
        if npm is None or shutil.which("node", path=self._path) is None:
            raise ConfigError(
                "npm was not found, which installs this server; it comes with Node.",
                fix="Install Node 20 or newer, so that `npm --version` answers in this terminal, and try again.",
            )
        for name in ("package.json", lock.name):
            shutil.copyfile(lock.with_name(name), folder / name)
        self._run("npm ci", [npm, *_NPM_CI, *_NPM_RETRIES], folder)

    def install_python(self, lock: Path, folder: Path) -> None:
        """Install a requirements file with hashes into a virtual environment of its own, `folder`; by uv if there.

        Raises:
            ConfigError: neither uv nor pip is there, or one fails or takes too long; says what to do.
        """
        uv = self._uv()
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

    def _uv(self) -> str | None:
        """Find uv where programs are looked for, or else, where none was given, beside our own interpreter."""
        found = shutil.which("uv", path=self._path)
        if found is None and self._path is None:
            found = shutil.which("uv", path=str(Path(sys.executable).parent))
        return found

    def _run(self, shown: str, command: Sequence[str], folder: Path) -> None:
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and every word of it is ours
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self._limit_s,
                encoding="utf-8",
                errors="replace",
                pass_fds=(self._lock_fd,),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"`{shown}` took longer than {self._limit_s:g} s.", fix=_AGAIN) from None
        if done.returncode:
            raise ConfigError(f"`{shown}` failed: {_told(done.stdout)}\n", fix=_AGAIN)


def _told(said: str) -> str:
    """Give the beginning and the end of what an installer said, without credentials."""
    text = redact_text(said.strip()) or "it said nothing."
    return text if len(text) <= 2 * _TOLD_CHARACTERS else f"{text[:_TOLD_CHARACTERS]} … {text[-_TOLD_CHARACTERS:]}"
