"""Which graphs are served; options win over the environment, which wins over langgraph.json."""

import os
from pathlib import Path

import pytest

from toolweave.cli.configuration import DEFAULT_LANGGRAPH_JSON, find_langgraph_json, read_configuration
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.errors import ConfigError

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with variables that are put back afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLWEAVE_DATA_DIR", "TOOLWEAVE_PORT", "TOOLWEAVE_MAX_ITERATIONS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_without_a_file_the_graphs_of_our_own_langgraph_json_are_served() -> None:
    written = load_langgraph_json(REPOSITORY / "langgraph.json")
    assert find_langgraph_json(None) == DEFAULT_LANGGRAPH_JSON
    assert written.graphs == DEFAULT_LANGGRAPH_JSON.graphs
    assert written.http == DEFAULT_LANGGRAPH_JSON.http


def test_our_graphs_read_the_env_file_that_our_langgraph_json_names_too() -> None:
    Path(".env").write_text("TOOLWEAVE_MAX_ITERATIONS=7\n", encoding="utf-8")
    assert read_configuration().settings.max_iterations == 7
    Path(".env").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"\.env: cannot be read as UTF-8"):
        read_configuration()


def test_a_file_in_the_current_folder_is_served_instead() -> None:
    Path("langgraph.json").write_text('{"graphs": {"mine": "./mine.py:graph"}}', encoding="utf-8")
    configuration = read_configuration()
    assert list(configuration.langgraph_json.graphs) == ["mine"]
    assert not configuration.has_toolweave_graphs


def test_an_option_beats_the_environment_which_beats_langgraph_json(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("langgraph.json").write_text(
        """{"graphs": {"mine": "./mine.py:graph"},
            "env": {"TOOLWEAVE_PORT": "1", "TOOLWEAVE_DATA_DIR": "from-file", "TOOLWEAVE_MAX_ITERATIONS": "3"}}""",
        encoding="utf-8",
    )
    monkeypatch.setenv("TOOLWEAVE_DATA_DIR", "from-environment")
    monkeypatch.setenv("TOOLWEAVE_PORT", "2")
    settings = read_configuration(port=3, host=None).settings
    assert (settings.port, settings.data_dir, settings.max_iterations) == (3, Path("from-environment"), 3)


def test_options_are_published_for_the_application_beside_the_graphs(tmp_path: Path) -> None:
    read_configuration(data_dir=tmp_path / "data", port=0)
    assert os.environ["TOOLWEAVE_DATA_DIR"] == str(tmp_path / "data")
    assert os.environ["TOOLWEAVE_PORT"] == "0"
