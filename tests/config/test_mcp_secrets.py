"""No value of mcp.jsonc or of the environment shows in what is printed, warned or raised."""

import json
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.config.mcp import load_mcp_config
from toolweave.errors import ConfigError

SECRET = "s3cr3t-9f8e7d"

pytestmark = pytest.mark.requirement("A-06")

# Values with a secret, valid and invalid.
CARRIERS = st.sampled_from(
    [
        SECRET,
        f"--key={SECRET}",
        f"https://h/mcp?key={SECRET}",
        f"ftp://{SECRET}",
        f"{SECRET}\r\n",
        f"{{env:{SECRET}}}",
        "{env:TOKEN}",
        "${env:TOKEN}",
        "{env:ABSENT}",
        "{env:TOKEN}{env:ABSENT}",
        "https://{env:TOKEN}@h/",
        "stdio",
        "x",
    ]
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "type": CARRIERS,
    "command": CARRIERS,
    "args": st.lists(CARRIERS, max_size=2) | CARRIERS,
    "env": st.dictionaries(st.just("KEY"), CARRIERS | st.lists(CARRIERS, max_size=1)) | CARRIERS,
    "url": CARRIERS,
    "headers": st.dictionaries(st.just("Authorization"), CARRIERS) | CARRIERS,
    "timeout_s": CARRIERS,
    "enabled": CARRIERS,
    "cwd": CARRIERS,
    "unknown": CARRIERS,
}
ENTRIES = st.fixed_dictionaries({}, optional=FIELDS)


def everything_shown(file: Path, environ: dict[str, str], *, strict: bool) -> str:
    """Load, and return all text that the caller could log: the result's and its servers' forms, or the error's."""
    try:
        config = load_mcp_config(file, environ, strict=strict)
    except ConfigError as error:
        return f"{error} {error!r} {''.join(traceback.format_exception(error))}"
    reasons = [server.misconfigured for server in config.servers]
    return f"{config} {config!r} {config.servers} {config.warnings} {reasons}"


@given(entry=ENTRIES, strict=st.booleans(), value=st.sampled_from([SECRET, f"{SECRET}\n", f"http://{SECRET}/"]))
def test_no_secret_shows_wherever_it_stands(tmp_path: Path, entry: dict[str, Any], strict: bool, value: str) -> None:
    file = tmp_path / "mcp.jsonc"
    file.write_text(json.dumps({"servers": {"a": entry}}), encoding="utf-8")
    shown = everything_shown(file, {"TOKEN": value}, strict=strict)
    assert "'a'" in shown or "TOKEN" in shown or "ABSENT" in shown
    assert SECRET not in shown
