"""Run the scenarios of tests/clients/js under Node: installed once, one process per file, every scenario a test.

@pytest.mark.parametrize(("script", "scenario"), scenarios("threads.mjs", "runs.mjs"))
def test_…(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

HERE = Path(__file__).parent / "js"
SCENARIO = re.compile(r'^scenario\("(.+?)", ', re.MULTILINE)
INSTALL_BOUND_S = 240
RUN_BOUND_S = 120


def scenarios(*scripts: str) -> list[Any]:
    """List the scenarios of some files, without Node: each is a test whose id is the scenario's sentence."""
    return [pytest.param(script, name, id=name) for script in scripts for name in _names(script)]


def _names(script: str) -> list[str]:
    return SCENARIO.findall((HERE / script).read_text(encoding="utf-8"))


class Javascript:
    """Node with the clients installed, and what each file has reported about a server."""

    def __init__(self, node: str, url: str) -> None:
        self._node = node
        self._url = url
        self._reports: dict[str, dict[str, str | None]] = {}
        self._said: dict[str, str] = {}

    def check(self, script: str, scenario: str) -> None:
        """Fail when the scenario failed, or was not run; the first question about a file runs it."""
        if script not in self._reports:
            self._run(script)
        report = self._reports[script]
        assert scenario in report, f"{script} did not come to this scenario:\n{self._said[script]}"
        error = report[scenario]
        assert error is None, f"{error}\n{self._said[script]}"

    def _run(self, script: str) -> None:
        done = subprocess.run(
            [self._node, script, self._url],
            cwd=HERE,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=RUN_BOUND_S,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"scenario"')]
        self._reports[script] = {line["scenario"]: line.get("error") for line in lines}
        self._said[script] = done.stderr
        assert self._reports[script].keys() <= set(_names(script)), "a scenario that no test asks for"


def install_javascript(url: str) -> Javascript:
    """Give the clients, pointed at a server; they are installed if that has not been done."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        _unavailable("Node and npm are not installed")
    _install(npm)
    return Javascript(node, url)


def _install(npm: str) -> None:
    """Install what package-lock.json says, once for every content of it, whoever comes first."""
    key = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    modules = HERE / "node_modules"
    installed = modules / f".installed-{key}"
    with (HERE / ".gitignore").open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if installed.exists():
            return
        command = [npm, "ci", "--ignore-scripts"]
        try:
            done = subprocess.run(
                command,
                cwd=HERE,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=INSTALL_BOUND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            _unavailable(f"{' '.join(command)} took longer than {INSTALL_BOUND_S} s")
        if done.returncode:
            _unavailable(f"{' '.join(command)} failed:\n{done.stderr}")
        installed.touch()


def _unavailable(why: str) -> NoReturn:
    """Skip where a developer has no Node; where CI should have it, that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
