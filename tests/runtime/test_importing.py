"""What cannot be imported is named with file, graph and reason, whatever the module raises."""

import sys
from pathlib import Path

import pytest

from toolweave.api.langgraph.app import make_importable
from toolweave.config.langgraph_json import GraphEntry, LangGraphJson
from toolweave.errors import ConfigError
from toolweave.runtime.graphs import load_graph, load_target


def config(folder: Path, code: str) -> LangGraphJson:
    (folder / "broken.py").write_text(code, encoding="utf-8")
    return LangGraphJson(path=folder / "langgraph.json", graphs={"mine": GraphEntry(target="./broken.py:graph")})


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1\nraise RuntimeError('no key')\n", "RuntimeError: no key"),
        ("class Odd(Exception): pass\nraise Odd\n", "Odd"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("{}['key']\n", "KeyError: 'key'"),
        ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all'"),
        ("1 +\n", "invalid syntax"),
        ("raise KeyboardInterruptLike\n", "NameError"),
    ],
)
def test_whatever_an_import_raises_is_told_in_one_line(code: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_graph(config(tmp_path, code), "mine")
    text = str(raised.value)
    assert text.startswith(f"{tmp_path}/langgraph.json: graph 'mine': cannot load './broken.py:graph': ")
    assert reason in text
    assert "broken.py" in text.partition(reason)[2]
    assert "\n" not in text


def test_a_failure_further_down_names_the_line_that_raised(tmp_path: Path) -> None:
    (tmp_path / "deeper.py").write_text("\n\nraise ValueError('deep')\n", encoding="utf-8")
    code = f"import importlib.util as u\ns = u.spec_from_file_location('deeper', {str(tmp_path / 'deeper.py')!r})\n"
    with pytest.raises(ConfigError) as raised:
        load_graph(config(tmp_path, f"{code}s.loader.exec_module(u.module_from_spec(s))\n"), "mine")
    assert f"ValueError: deep ({tmp_path}/deeper.py:3)" in str(raised.value)


def test_an_absent_attribute_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'broken\.py' has no 'graph'"):
        load_target("broken.py:graph", config(tmp_path, "other = 1\n").path.parent)
    with pytest.raises(ConfigError, match="no file"):
        load_target("absent.py:graph", tmp_path)
    with pytest.raises(ConfigError, match="names no attribute"):
        load_target("broken.py", tmp_path)


def test_a_file_is_loaded_once_under_a_name_that_every_process_gives_it(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text("class Value: pass\n", encoding="utf-8")
    first, second = (load_target("kept.py:Value", tmp_path) for _ in range(2))
    assert first is second
    name = getattr(first, "__module__", "")
    assert name.startswith("_served_kept_")
    # The same text in another process: a digest, not Python's own hash, which differs from one to the next.
    assert len(name.removeprefix("_served_kept_")) == 12


def test_a_relative_import_is_told_with_what_works_instead(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"relative import.*package\.module:name"):
        load_graph(config(tmp_path, "from .beside import graph\n"), "mine")


def test_a_package_in_the_src_folder_of_a_dependency_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    package = tmp_path / "src" / "package_in_src"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "words.py").write_text("graph = 'found'\n", encoding="utf-8")
    served = config(tmp_path, "from package_in_src.words import graph\n")
    make_importable(served)
    assert load_graph(served, "mine") == "found"
