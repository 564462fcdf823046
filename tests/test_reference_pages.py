"""docs/reference and the list of decisions are current: written again from the code, they are the same."""

import pytest
from scripts.reference_pages import DOCS, pages

from toolweave.config.settings import Settings, variable_name

PAGES = pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_agrees_with_the_code(name: str) -> None:
    assert PAGES[name] == (DOCS / name).read_text(encoding="utf-8"), "write the pages again: make reference"


def test_the_pages_name_every_setting_and_every_operation_of_a_run() -> None:
    for field in Settings.model_fields:
        assert f"| `{variable_name(field)}` |" in PAGES["reference/settings.md"]
    for operation in ("POST /threads/{thread_id}/runs/stream", "POST /runs/wait", "POST /chat/stream"):
        assert f"| `{operation}` |" in PAGES["reference/api.md"]
    assert "## toolweave servers import" in PAGES["reference/cli.md"]
