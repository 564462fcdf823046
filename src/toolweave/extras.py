"""Name the extra whose packages the base installation leaves out (U-05)."""

import sys
from functools import cache
from importlib.util import find_spec
from typing import Literal

from toolweave.errors import ConfigError

_SCRIPT = ("trafilatura", "protego")
PACKAGES = {
    "script": _SCRIPT,
    "server": (
        *("typer", "rich", "fastmcp", "fastapi", "fastapi_offline", "uvicorn", "httptools", "websockets", "watchfiles"),
        *("sqlalchemy", "aiosqlite", "alembic", "sqlite_vec", "cryptography", "keyring", "croniter"),
        *("pathspec", "regex", "dotenv", "prometheus_client", "tzdata", "openapi_pydantic", *_SCRIPT),
    ),
}
"""The modules of the packages that an extra installs on every system."""


@cache
def require_extra(extra: Literal["script", "server"]) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        ConfigError: one is not; the text names it and the command that installs the extra.
        SystemExit: instead, while `python -m` looks for the program; the text is printed without a traceback.
    """
    missing = next((package for package in PACKAGES[extra] if find_spec(package) is None), None)
    if missing is None:
        return
    error = ConfigError(
        f"{missing} is not installed.", fix=f"Install the extra {extra}: pip install 'toolweave[{extra}]'"
    )
    if sys.argv[:1] == ["-m"]:
        sys.exit(f"{error.headline}: {error}")
    raise error
