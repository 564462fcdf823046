"""Install the external servers for their tests: once for every content of the pinned lists, by our own installer."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.external.stub_apis import StubApis, stub_apis
from tests.fixtures.certificates import every_authority
from tests.fixtures.node_packages import unavailable
from toolweave.errors import ConfigError
from toolweave.servers.external_servers import install, installation_of

# Kept between runs, and ignored by git.
CACHE = Path(__file__).parent / ".toolweave"
# One for each thing to install: all npm packages are one.
INSTALLED = ("filesystem", "git", "fetch", "time")


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the programs; those that the module NEEDS, else all, are installed if they are not there."""
    for program in ("npm", "node", "git"):
        if shutil.which(program) is None:
            unavailable(f"{program} is not installed")
    messages: list[str] = []
    for name in getattr(request.module, "NEEDS", INSTALLED):
        installation = installation_of(name)
        assert installation is not None
        try:
            with every_authority():
                install(installation, CACHE, messages.append)
        except ConfigError as error:
            unavailable(str(error))
    return CACHE / "servers"


def new_data_dir(folder: Path, installed: Path) -> Path:
    """Make a data folder that has the installed servers and nothing else."""
    folder.mkdir()
    (folder / "servers").symlink_to(installed)
    return folder


@pytest.fixture
def data_dir(tmp_path: Path, installed: Path) -> Path:
    """Give a test a data folder of its own, with the servers installed."""
    return new_data_dir(tmp_path / "data", installed)


@pytest.fixture(scope="module")
def module_data_dir(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Path:
    """Give a module a data folder of its own, with the servers installed."""
    return new_data_dir(tmp_path_factory.mktemp("external") / "data", installed)


@pytest.fixture(scope="module")
def apis() -> Iterator[StubApis]:
    with stub_apis() as running:
        yield running
