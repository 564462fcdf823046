"""Name the extra whose packages the base installation leaves out (U-05)."""

import sys
from functools import cache
from importlib.util import find_spec

from toolweave.errors import ConfigError

PACKAGES = {
    "script": ("trafilatura", "protego"),
    "postgres": ("psycopg", "psycopg_pool", "procrastinate", "langgraph.checkpoint.postgres"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http", "openinference.instrumentation.langchain"),
    "server": (
        *("typer", "rich", "fastmcp", "fastapi", "fastapi_offline", "uvicorn", "httptools", "websockets", "watchfiles"),
        *("sqlalchemy", "aiosqlite", "alembic", "sqlite_vec", "cryptography", "keyring", "croniter"),
        *("pathspec", "regex", "dotenv", "prometheus_client", "tzdata", "openapi_pydantic", "trafilatura", "protego"),
        "ag_ui",
    ),
}
"""The modules of the packages that an extra installs on every system."""


@cache
def require_extra(extra: str, *, for_program: bool = False) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        ConfigError: one is not; the text names it and the command that installs the extra.
        SystemExit: instead, `for_program` and while `python -m` looks for the program; its text is one line.
    """
    for package in PACKAGES[extra]:
        if find_spec(package) is None:
            fix = f"Install the extra {extra}: pip install 'toolweave[{extra}]'"
            error = ConfigError(f"{package} is not installed.", fix=fix)
            if for_program or sys.argv[:1] == ["-m"]:
                sys.exit(f"{error.headline}: {error}")
            raise error
