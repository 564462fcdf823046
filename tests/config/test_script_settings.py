"""Settings of video scripts: defaults, what a file may say, and what is wrong with one that is refused (A-05)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.logged import logged
from toolweave.config import script_settings
from toolweave.config.script_settings import ScriptSettings, load_script_settings
from toolweave.errors import ConfigError


@pytest.fixture
def warned() -> Iterator[list[str]]:
    with logged() as lines:
        yield lines


def written(folder: Path, text: str) -> Path:
    file = folder / "script.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def loaded(folder: Path, text: str, **environ: str) -> ScriptSettings:
    return load_script_settings(written(folder, text), environ)


def test_without_a_file_the_documented_defaults_hold() -> None:
    settings = load_script_settings(None, {})

    assert settings == ScriptSettings()
    assert (settings.model, settings.base_url, settings.language) == (None, None, "auto")
    assert (settings.target_length_s, settings.sections.min, settings.sections.max) == (180, 3, 8)
    assert settings.personas == ()


def test_the_example_in_the_documentation_is_read_without_a_warning(tmp_path: Path, warned: list[str]) -> None:
    example = re.search(r"```yaml\n(.*?)```", str(script_settings.__doc__), re.DOTALL)
    assert example is not None

    settings = loaded(tmp_path, example[1])

    assert settings.model == "google/gemini-2.5-flash"
    assert settings.narration.character == "A calm teacher"
    assert settings.personas[0].character == "Curious, asks questions"
    assert warned == []


@pytest.mark.parametrize(
    ("text", "language"),
    [("language: no", "no"), ("language: 'yes'", "yes"), ("language:", "auto"), ("# none", "auto"), ("{}", "auto")],
)
def test_a_plain_word_is_a_text_and_nothing_is_the_default(tmp_path: Path, text: str, language: str) -> None:
    assert loaded(tmp_path, text).language == language


def test_variables_are_filled_in(tmp_path: Path) -> None:
    text = 'model: "{env:MODEL:-small}"\nbase_url: ${env:ENDPOINT}\nnarration:\n  style:\n'

    settings = loaded(tmp_path, text, ENDPOINT="http://127.0.0.1:11434/v1")

    assert (settings.model, settings.base_url) == ("small", "http://127.0.0.1:11434/v1")


def test_unknown_keys_are_pointed_out_with_their_line_and_without_their_value(
    tmp_path: Path, warned: list[str]
) -> None:
    text = "lenguage: secret\nnarration:\n  voice: secret\nsections: {least: 2}\n"
    text += "personas:\n  - id: a\n    name: A\n    x: 1"

    assert loaded(tmp_path, text).language == "auto"

    found = [line.partition("script.yaml:")[2].strip() for line in warned]
    assert found == [
        "1: unknown key 'lenguage' is ignored (did you mean 'language'?)",
        "3: narration: unknown key 'voice' is ignored",
        "4: sections: unknown key 'least' is ignored",
        "8: personas[0]: unknown key 'x' is ignored",
    ]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", None, "the file is empty"),
        ("text", 1, "must be a mapping"),
        ("a: 1\nb: [1,\nc: 2", 3, "not valid YAML"),
        ("a: 1\n\tb: 2", 2, "not valid YAML"),
        ("a: 1\n\nb: \x00", 3, "not valid YAML: special characters are not allowed"),
        ("language: a\nlanguage: b", 2, "this key is repeated"),
        ("model: &m a\nlanguage: *m", 1, "aliases (*name) are not supported"),
        ("? [a]\n: b", 1, "a key must be a text"),
        ("[" * 600, None, "is nested too deeply"),
        ("\nlanguage: [de]", 2, "language must be a string"),
        ("target_length_s: 5", 1, "target_length_s must be at least 10"),
        ("length_factor: nan", 1, "length_factor must be"),
        ("sections:\n  min: 0", 2, "sections.min must be at least 1"),
        ("language: a\nsections: {min: 9, max: 8}", 2, "sections must not have a min above its max"),
        ("personas:\n  - id: a b\n    name: Ann", 2, "personas[0].id must match"),
        ("personas: [{id: a, name: A}, {id: a, name: B}]", 1, "two personas with the same id"),
        ("base_url: http://127.0.0.1/v1", 1, "has a base_url, but no model for it"),
        ("model: {env:MODEL}", 1, "model must be a string"),
        ('\nmodel: "{env:MODEL}"', 2, "environment variable MODEL is not set"),
        ('model: "{env:MY-MODEL}"', 1, "contains an invalid reference"),
    ],
)
def test_a_file_that_is_wrong_is_refused_where_it_is_wrong(
    tmp_path: Path, text: str, line: int | None, problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, text)

    assert raised.value.source == str(tmp_path / "script.yaml") + (f":{line}" if line else "")
    assert problem in raised.value.message
    assert raised.value.fix or "set it" in raised.value.message


def test_a_file_of_something_else_is_refused_and_nothing_of_it_is_shown(tmp_path: Path, warned: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"script\.yaml:1: has none of the keys of script settings\. .*language"):
        loaded(tmp_path, "root:s3cret:19000: x\ndaemon:s3cret2:19000: y\n")
    loaded(tmp_path, "language: de\nroot:s3cret:19000: x\n")

    assert [line.strip().rpartition("script.yaml:")[2] for line in warned] == ["2: unknown key is ignored"]


def test_no_value_shows_in_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, "base_url: '{env:U}'", U="not-a-url-but-a-secret")

    assert "secret" not in str(raised.value)
