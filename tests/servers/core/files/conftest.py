"""Give tests a root with a few files, beside a folder that is outside, and a server that reads it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.mcp_server import held
from tests.servers.core.files.file_client import SECRET, FileClient, file_client, tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tree(tmp_path / "outside", {"secret.txt": SECRET, "deep/secret.txt": SECRET})
    return tree(
        tmp_path / "root",
        {
            "readme.md": "# Title\n\nHello world.\n",
            "docs/setup.md": "Install it.\nRun it.\n",
            "docs/deep/er/notes.md": "Remember the milk.\n",
            "src/main.py": "def main() -> None:\n    print('Hello')\n",
            "src/empty.py": "",
        },
    )


@pytest_asyncio.fixture(loop_scope="module")
async def files(root: Path) -> AsyncIterator[FileClient]:
    async with held(file_client(root)) as client:
        yield client
