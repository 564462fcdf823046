"""docs/tools and docs/core-tools.md are current: written again from the code, all examples run, they are the same."""

import json
import re
from pathlib import Path

import pytest
import pytest_asyncio
from scripts.tool_pages import AREAS, DOCS, pages, with_codes

from toolweave.config.settings import Settings, variable_name
from toolweave.servers.error_codes import ERROR_CODES
from toolweave.servers.tool_server import MAX_BYTES, TOOL_TIMEOUT_S

NAMES = sorted(f"{tool}.md" for area in AREAS for tool in area.tools)
OPERATORS = (DOCS / "core-tools.md").read_text(encoding="utf-8")


def text_of(name: str) -> str:
    return (DOCS / "tools" / name).read_text(encoding="utf-8")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return await pages(tmp_path_factory.mktemp("world"))


def test_each_tool_has_a_page() -> None:
    assert sorted(path.name for path in (DOCS / "tools").iterdir()) == sorted(["README.md", *NAMES])


@pytest.mark.requirement("C-08")
@pytest.mark.parametrize("name", ["README.md", *NAMES])
async def test_a_page_agrees_with_the_code_and_its_examples_return_what_is_printed(
    written: dict[str, str], name: str
) -> None:
    assert written[name] == text_of(name), "write the pages again: python -m scripts.tool_pages"


@pytest.mark.requirement("C-08")
@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_a_call_that_succeeds_and_one_that_fails_with_advice(name: str) -> None:
    blocks = [
        json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text_of(name), re.MULTILINE | re.DOTALL)
    ]
    answers = blocks[1::2]
    assert {answer["status"] for answer in answers} == {"success", "error"}
    assert all(answer["error"]["suggestion"] for answer in answers if "error" in answer)
    assert not any("status" in arguments and "data" in arguments for arguments in blocks[::2])


@pytest.mark.requirement("C-06")
def test_the_operators_page_has_every_code() -> None:
    assert with_codes(OPERATORS) == OPERATORS, "write the pages again: python -m scripts.tool_pages"
    assert all(f"| `{row.code}` |" in OPERATORS for row in ERROR_CODES)


def test_the_operators_page_has_every_setting_with_its_default() -> None:
    listed = dict(re.findall(r"^\| `(TOOLWEAVE_\w+)` \| ([^|]*) \|", OPERATORS, re.MULTILINE))
    fields = {
        name: field
        for name, field in Settings.model_fields.items()
        if name.startswith(("query_", "job_", "file_", "core_"))
    }
    assert list(listed) == [variable_name(name) for name in fields]
    for name, field in fields.items():
        default = field.get_default(call_default_factory=True)
        shown = listed[variable_name(name)].strip("`")
        if isinstance(default, int | float):
            assert shown == f"{default:g}" or shown == str(default)
        elif not default:
            assert shown in ("none", "the todo database")
        else:
            assert shown == default


def test_the_operators_page_has_the_limits() -> None:
    assert f"cut at {TOOL_TIMEOUT_S:g} s" in OPERATORS
    assert f"at most {MAX_BYTES // 1_000_000} MB" in OPERATORS


@pytest.mark.parametrize("page", [DOCS / "core-tools.md", *(DOCS / "tools" / name for name in ["README.md", *NAMES])])
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link
