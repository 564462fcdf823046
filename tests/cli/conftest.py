"""One server with the sample application for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import SAMPLE_APP, Running, serving


@pytest.fixture(scope="module")
def sample_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Serve the sample application on a free port."""
    folder = tmp_path_factory.mktemp("sample")
    with serving("--config", str(SAMPLE_APP), "--data-dir", str(folder / "data"), cwd=folder) as running:
        yield running


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Give an empty folder: no langgraph.json, no data."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder
