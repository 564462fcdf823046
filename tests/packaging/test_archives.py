"""The archives we publish hold every room, and the wheel works beside a config and an api of the host's own."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from tests.packaging.conftest import build

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "toolweave"
STUDIO_FILES = re.compile(r"studio/(\w+\.py$|dist/)")


def rooms() -> list[str]:
    return sorted(path.name for path in PACKAGE.iterdir() if path.is_symlink())


def hatch() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        loaded: dict[str, Any] = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]
    return loaded


def test_every_room_is_linked_packed_and_mapped() -> None:
    folders = sorted(
        path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("tests", "examples")
    )
    assert rooms() == folders
    targets = hatch()
    assert sorted(targets["wheel"]["only-include"]) == sorted(["src/toolweave", *folders])
    assert set(targets["sdist"]["only-include"]) >= {"src/toolweave", *folders}
    assert targets["wheel"]["sources"] == {"src": ""} | {room: f"toolweave/{room}" for room in folders}
    assert all((PACKAGE / room).readlink() == Path("../..") / room for room in folders)


def test_the_wheel_built_from_the_sdist_holds_every_file_of_every_room(archives: tuple[list[str], Path]) -> None:
    _, wheel = archives
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    tracked = subprocess.run(
        ["git", "ls-files", *rooms()], cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout.split()
    # Users get the studio's page as it was built.
    shipped = [name for name in tracked if not name.startswith("studio/") or STUDIO_FILES.match(name)]
    assert [name for name in shipped if f"toolweave/{name}" not in names] == []
    assert [name for name in names if name.startswith("toolweave/studio/") and not STUDIO_FILES.match(name[10:])] == []
    assert "toolweave/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "config/", "api/"))]


def test_the_wheel_built_from_the_checkout_is_the_one_built_from_the_sdist(
    archives: tuple[list[str], Path], tmp_path: Path
) -> None:
    build("wheel", ROOT, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(archives[1]) as published:
        assert sorted(ours.namelist()) == sorted(published.namelist())


def test_the_sdist_holds_no_tests_and_no_links(archives: tuple[list[str], Path]) -> None:
    names, _ = archives
    assert not [name for name in names if "/tests/" in name]
    assert not [name for name in names for room in rooms() if f"/src/toolweave/{room}" in name]


def test_the_wheel_works_in_a_host_that_has_its_own_config_and_api(
    archives: tuple[list[str], Path], tmp_path: Path
) -> None:
    _, wheel = archives
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    host = tmp_path / "host"
    host.mkdir()
    (host / "config.py").write_text("mine = True\n", encoding="utf-8")
    (host / "api.py").write_text("mine = True\n", encoding="utf-8")
    (host / "app.py").write_text(
        "import asyncio, config, api, toolweave\n"
        "from toolweave.graphs import build_agent_loop\n"
        "from toolweave.nodes.offline_model.model import OfflineChatModel\n"
        "assert config.mine and api.mine\n"
        "graph = build_agent_loop(tools=[], model=OfflineChatModel())\n"
        "answer = asyncio.run(graph.ainvoke({'messages': [('user', 'hello')]}))\n"
        "print(toolweave.__file__, len(answer['messages']))\n",
        encoding="utf-8",
    )
    run = subprocess.run(
        [sys.executable, "app.py"],
        cwd=host,
        env={"PYTHONPATH": f"{host}:{tmp_path / 'installed'}", "PATH": "/usr/bin:/bin", "TOOLWEAVE_MODEL": "offline"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    file, messages = run.stdout.split()
    assert Path(file).is_relative_to(tmp_path / "installed")
    assert int(messages) == 2
