"""What a script job is to do is read from two files for each job; an error names what is wrong with one (A-05)."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.logged import logged
from toolweave.config.script_job import ScriptJob, load_required_servers, read_script_job
from toolweave.config.script_settings import ScriptSettings
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError, MissingVariable

SECRET = "s3cr3t-value"
SERVER = {"command": "fetcher", "args": ["--key", "{env:FETCHER_KEY}"]}
NOBODY = 65_534


def file_of(folder: Path, text: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def servers(**entries: Any) -> str:
    return json.dumps({"mcpServers": entries})


def refusal(**environ: str) -> str:
    """Return the error for the files that the environment names; no value of theirs is in it."""
    with pytest.raises(ConfigError) as raised:
        read_script_job(environ)
    message = str(raised.value)
    assert SECRET not in f"{message} {raised.value!r} {raised.value.__cause__}"
    assert "\n" not in message
    return message


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user who may read nobody's files."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.requirement("A-05")
@pytest.mark.parametrize("environ", [{}, {"CONFIG_PATH": "", "MCP_CONFIG_PATH": ""}, {"MCP_CONFIG_PATH": "  "}])
def test_unset_or_empty_variables_mean_the_defaults_and_no_servers(environ: dict[str, str]) -> None:
    assert read_script_job(environ) == ScriptJob(settings=ScriptSettings(), mcp=None)


def test_both_files_are_read_and_their_variables_filled_in(tmp_path: Path) -> None:
    settings = file_of(tmp_path, "language: '{env:TONGUE}'\nnarration: {style: Short}", "script.yaml")
    mcp = file_of(tmp_path, f"// ours\n{servers(fetcher=SERVER, off={'command': '{env:ABSENT}', 'enabled': False})}")
    environ = {"CONFIG_PATH": str(settings), "MCP_CONFIG_PATH": str(mcp), "TONGUE": "German", "FETCHER_KEY": SECRET}

    job = read_script_job(environ)

    assert (job.settings.language, job.settings.narration.style) == ("German", "Short")
    assert job.mcp is not None
    assert [(server.name, server.enabled) for server in job.mcp.servers] == [("fetcher", True), ("off", False)]
    assert job.mcp.servers[0].args == ("--key", SECRET)
    assert SECRET not in repr(job)


def test_relative_paths_count_from_the_working_folder_and_those_in_the_mcp_file_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    file_of(tmp_path / "conf", "language: de", "script.yaml")
    file_of(tmp_path / "conf", servers(one={"command": "./bin/fetcher"}), "mcp.jsonc")
    monkeypatch.chdir(tmp_path)

    job = read_script_job({"CONFIG_PATH": "conf/script.yaml", "MCP_CONFIG_PATH": "conf/mcp.jsonc"})

    assert job.settings.language == "de"
    assert job.mcp is not None
    assert job.mcp.servers[0].command == str(tmp_path / "conf" / "bin" / "fetcher")
    assert f"CONFIG_PATH ({tmp_path}/script.yaml): the file does not exist" in refusal(CONFIG_PATH="script.yaml")


@pytest.mark.requirement("A-05")
@pytest.mark.parametrize("variable", ["CONFIG_PATH", "MCP_CONFIG_PATH"])
def test_a_file_that_cannot_be_read_is_named_with_its_variable_and_the_reason(tmp_path: Path, variable: str) -> None:
    absent, closed = tmp_path / "absent", file_of(tmp_path, "language: de", "closed")
    closed.chmod(0)

    assert refusal(**{variable: str(absent)}) == (
        f"{variable} ({absent}): the file does not exist. Create it or correct the path."
    )
    assert f"{variable} ({tmp_path}): cannot be read (Is a directory)." in refusal(**{variable: str(tmp_path)})
    assert "the file does not exist" in refusal(**{variable: "~no-such-user/file"})
    assert f"{variable} ({closed}/below): cannot be read (Not a dir" in refusal(**{variable: str(closed / "below")})
    assert "cannot be read (File name too long)" in refusal(**{variable: "x" * 5000})
    with without_rights():
        denied = refusal(**{variable: str(closed)})
    assert denied == f"{variable} ({closed}): cannot be read (Permission denied). Make it a readable file."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        (f"language: de\n- {SECRET}", "file:2): not valid YAML"),
        (f"- {SECRET}", "file:1): must be a mapping"),
        (b"language: de\n\xff\xfe", "file:2): is not UTF-8 text."),
        (f"language: de\nsections:\n  min: {SECRET}", "file:3): sections.min must be a whole number."),
        (f"target_length_s: 180\nbase_url: {SECRET}\nmodel: m", "file:2): base_url must be an http:// or https:// URL"),
        (
            f"model: m\nbase_url: https://me:{SECRET}@h/v1",
            "file:2): base_url must not contain credentials: set keys in the environment",
        ),
        ("language: de\nmodel: '{env:NO_MODEL}'", "file:2): model: environment variable NO_MODEL is not set"),
    ],
)
def test_script_settings_that_are_wrong_are_named_with_variable_file_and_line(
    tmp_path: Path, text: str | bytes, problem: str
) -> None:
    message = refusal(CONFIG_PATH=str(file_of(tmp_path, text)), UNUSED=SECRET)

    assert message.startswith(f"CONFIG_PATH ({tmp_path}/file")
    assert problem in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        (f"{{\n  mcpServers: {SECRET}\n}}", "file:2): not valid JSON5"),
        ("{}", "has neither mcpServers nor servers."),
        ('{"mcpServers": {}}', "enables no MCP server. Enable one"),
        (b'{\n"mcpServers": "\xff"}', "file:2): is not UTF-8 text."),
        (servers(a={"url": SECRET}), "file:1): server 'a': url must be"),
        (servers(a={"command": "x", "args": ["${input:key}"]}), "${input:key} is known to editors only"),
    ],
)
def test_an_mcp_file_that_is_wrong_is_named_with_variable_file_and_line(
    tmp_path: Path, text: str | bytes, problem: str
) -> None:
    message = refusal(MCP_CONFIG_PATH=str(file_of(tmp_path, text)))

    assert message.startswith(f"MCP_CONFIG_PATH ({tmp_path}/file")
    assert problem in message


@pytest.mark.requirement("A-06")
def test_variables_of_an_mcp_file_that_are_not_set_are_the_jobs_failure(tmp_path: Path) -> None:
    mcp = file_of(tmp_path, servers(a=SERVER, b={"command": "x", "env": {"A": "{env:OTHER}", "B": "{env:C:-d}"}}))

    with pytest.raises(MissingVariable) as raised:
        read_script_job({"MCP_CONFIG_PATH": str(mcp), "OTHER": ""})

    assert raised.value.names == ("FETCHER_KEY", "OTHER")
    assert str(raised.value).startswith(
        f"MCP_CONFIG_PATH ({mcp}): environment variables FETCHER_KEY, OTHER are not set."
    )


def test_unknown_keys_of_both_files_are_logged_and_nothing_more(tmp_path: Path) -> None:
    with logged() as lines:
        read_script_job(
            {
                "CONFIG_PATH": str(file_of(tmp_path, f"sections: {{}}\nlangauge: {SECRET}", "script.yaml")),
                "MCP_CONFIG_PATH": str(file_of(tmp_path, servers(a={"command": "x", "tiemout_s": SECRET}))),
            }
        )

    assert len(lines) == 2
    assert "langauge" in lines[0]
    assert "tiemout_s" in lines[1]
    assert SECRET not in "".join(lines)


def test_servers_that_a_program_names_are_loaded_by_the_same_rules_without_the_variables_name(tmp_path: Path) -> None:
    wrong = file_of(tmp_path, servers(a={"command": "x", "enabled": False}))

    with pytest.raises(ConfigError, match="enables no MCP server") as raised:
        load_required_servers(wrong, Settings(), {})

    assert str(raised.value).startswith(f"{wrong}: ")
    assert "MCP_CONFIG_PATH" not in str(raised.value)
