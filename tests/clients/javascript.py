"""Run the scenarios of tests/clients/js under Node: installed once, one process per file, every scenario a test.

@pytest.mark.parametrize(("script", "scenario"), scenarios("threads.mjs", "runs.mjs"))
def test_…(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.node_packages import node_with_packages

HERE = Path(__file__).parent / "js"
SCENARIO = re.compile(r'^(?:browserS|s)cenario\("(.+?)", ', re.MULTILINE)
RUN_BOUND_S = 300


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
        self._stderr: dict[str, str] = {}

    def check(self, script: str, scenario: str) -> None:
        """Fail if the scenario failed or did not run; the first call for a file runs it."""
        if script not in self._reports:
            self._run(script)
        report = self._reports[script]
        assert scenario in report, f"{script} did not come to this scenario:\n{self._stderr[script]}"
        error = report[scenario]
        assert error is None, f"{error}\n{self._stderr[script]}"

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
        self._stderr[script] = done.stderr
        assert self._reports[script].keys() <= set(_names(script)), "a scenario without a test"


def install_javascript(url: str) -> Javascript:
    """Give the clients, pointed at a server; they are installed if that has not been done."""
    return Javascript(node_with_packages(HERE), url)
