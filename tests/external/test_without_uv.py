"""Where there is no uv, Python servers are installed by venv and pip, as pinned (C-09)."""

from pathlib import Path

import pytest

from tests.external.shipped import answer, plane_with
from toolweave.servers.external_servers import install, installation_of, is_installed

pytestmark = [pytest.mark.external, pytest.mark.slow]


async def test_a_server_that_pip_installed_answers(tmp_path: Path) -> None:
    installation = installation_of("time")
    assert installation is not None
    messages: list[str] = []
    install(installation, tmp_path, messages.append, path="/no-programs")
    assert is_installed(installation, tmp_path)
    assert list((tmp_path / "servers" / "time").glob("lib/*/site-packages/pip"))
    async with plane_with("time", data_dir=tmp_path) as plane:
        assert "UTC" in await answer(plane, "time", "get_current_time", timezone="UTC")
