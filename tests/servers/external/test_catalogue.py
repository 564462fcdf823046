"""What is pinned is exact, complete and free of addresses, and the shipped entries start what is installed (C-09)."""

import json
import re
from pathlib import Path

import pytest

from tests.external.shipped import shipped_entries
from toolweave.config.mcp import SHIPPED_MCP_CONFIG
from toolweave.config.variables import find_unresolved
from toolweave.servers.external_servers import PINNED_DIR, installation_of

OURS = ("todo", "core")
EXTERNAL = [name for name in shipped_entries() if name not in OURS]
PAGE = Path(__file__).parents[3] / "docs" / "external-servers.md"
PINNED_PYTHON = ("mcp-server-git", "mcp-server-fetch", "mcp-server-time")


@pytest.mark.parametrize("name", EXTERNAL)
def test_every_external_entry_is_disabled_and_starts_what_is_installed_for_it(name: str) -> None:
    entry, installation = shipped_entries()[name], installation_of(name)
    assert installation is not None
    assert entry["enabled"] is False
    assert entry["command"] == f"{{env:TOOLWEAVE_DATA_DIR}}/servers/{installation.program}"
    assert re.fullmatch(r"\d+(\.\d+)+", installation.version)
    assert installation.lock.is_file()


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("firecrawl", {"FIRECRAWL_API_KEY"}),
        ("brave", {"BRAVE_API_KEY"}),
        ("supabase", {"SUPABASE_ACCESS_TOKEN"}),
        ("filesystem", {"FILESYSTEM_FOLDER"}),
        ("git", {"GIT_REPOSITORY"}),
        ("git-files", {"GIT_REPOSITORY"}),
        *((name, set()) for name in ("memory", "fetch", "time", "thinking", "everything")),
    ],
)
def test_keys_and_folders_come_from_the_environment_without_a_default(name: str, variables: set[str]) -> None:
    missing = set(find_unresolved(shipped_entries()[name], {"TOOLWEAVE_DATA_DIR": "/data"}).missing)
    assert missing == variables


def test_no_entry_holds_a_key_or_the_address_of_a_stand_in() -> None:
    text = json.dumps(shipped_entries())
    assert re.findall(r"https?://[^\"}]+", text) == ["https://api.supabase.com"]
    assert not re.search(r"dummy|sbp_|fc-|127\.0\.0\.1|localhost", text)


@pytest.mark.requirement("T-05")
@pytest.mark.parametrize("name", ["firecrawl", "supabase"])
def test_slow_services_get_a_minute(name: str) -> None:
    assert shipped_entries()[name]["timeout_s"] == 60


def test_every_npm_package_is_pinned_exactly_with_its_hash_and_without_an_address() -> None:
    wanted = json.loads((PINNED_DIR / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((PINNED_DIR / "package-lock.json").read_text(encoding="utf-8"))
    packages = {path: package for path, package in lock["packages"].items() if path}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted["dependencies"].values())
    assert lock["packages"][""]["dependencies"] == wanted["dependencies"]
    for name, version in wanted["dependencies"].items():
        assert packages[f"node_modules/{name}"]["version"] == version
    assert [path for path, package in packages.items() if not package.get("integrity", "").startswith("sha512-")] == []
    assert [path for path, package in packages.items() if "resolved" in package] == []


@pytest.mark.parametrize("name", PINNED_PYTHON)
def test_every_python_package_is_pinned_exactly_with_its_hashes_and_without_an_address(name: str) -> None:
    text = (PINNED_DIR / f"{name}.txt").read_text(encoding="utf-8")
    pins = [pin for pin in re.split(r"\n(?=\S)", text) if pin]
    assert len(pins) > 20
    for pin in pins:
        assert re.match(r"[a-z0-9-]+==\S+( ;[^\n]*)? \\\n    --hash=sha256:[0-9a-f]{64}", pin), pin
    assert "://" not in text
    assert "mcp==2." in text


def test_what_is_pinned_ships_with_the_configuration() -> None:
    names = {path.name for path in PINNED_DIR.iterdir()}
    assert names == {"package.json", "package-lock.json", *(f"{name}.txt" for name in PINNED_PYTHON)}
    assert PINNED_DIR.parent == Path(SHIPPED_MCP_CONFIG).parent


@pytest.mark.parametrize("name", EXTERNAL)
def test_the_page_has_a_section_with_its_version_and_its_variables(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = next(each for each in text.split("\n## ") if name in each.partition("\n")[0].split())
    installation = installation_of(name)
    assert installation is not None
    assert f"`{installation.package}` {installation.version}" in section
    for variable in find_unresolved(shipped_entries()[name], {"TOOLWEAVE_DATA_DIR": "/data"}).missing:
        assert f"`{variable}`" in section
    assert f"| [{name}](#" in text
