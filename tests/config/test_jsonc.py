"""JSON5 with comments and trailing commas is read, and every mistake is placed on its line."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.config import documents
from toolweave.config.documents import MAX_CONFIG_BYTES
from toolweave.config.jsonc import parse_jsonc, read_jsonc
from toolweave.errors import ConfigError

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda items: st.lists(items, max_size=4) | st.dictionaries(st.text(), items, max_size=4), max_leaves=12
)
NOISE = "{}[]:,\"'\\/*\n\r ab01.-+x_${env:}\ufeff\u2028\x00eInfinityNaN"


def decorated(value: Any) -> str:
    """Write JSON as a person would: comments everywhere, a comma after every last item."""
    if isinstance(value, dict):
        members = "".join(f"// note {{\n{json.dumps(key)} /*:*/ : {decorated(item)} , " for key, item in value.items())
        return "{" + members + "}"
    if isinstance(value, list):
        return "[ /* ] */ " + "".join(f"{decorated(item)},\n" for item in value) + "]"
    return json.dumps(value)


def keys_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in [(*path, key), *keys_of(item, (*path, key))]]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in keys_of(item, (*path, index))]
    return []


@pytest.mark.requirement("A-06")
@given(VALUES)
def test_comments_and_trailing_commas_change_no_value(value: Any) -> None:
    assert parse_jsonc(decorated(value), source="x").value == value


@pytest.mark.requirement("A-06")
@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_every_key_is_on_the_line_where_it_is_written(value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1)
    lines = text.split("\n")
    document = parse_jsonc(text, source="x")
    for path in keys_of(value):
        assert lines[document.lines[path] - 1].lstrip().startswith(f"{json.dumps(path[-1])}: ")


@given(st.text(alphabet=NOISE, max_size=40))
def test_any_text_is_read_or_refused_with_a_configuration_error(text: str) -> None:
    try:
        place = parse_jsonc(text, source="noise.jsonc").locate(())
    except ConfigError as error:
        place = str(error)
    assert place.startswith("noise.jsonc:")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "x:3: not valid JSON5: unexpected '\"' at column 3."),
        ('{\n  "a": [1, 2\n', "x:3: not valid JSON5: the text ends too early at column 1."),
        ('{"a": "open\n}', "x:1: not valid JSON5: unexpected '\\n' at column 12."),
        ("{} {}", "x:1: not valid JSON5: unexpected '{' at column 4."),
        ('{\n"a": 1, // first\n\n"a": 2}', "x:4: the key 'a' is repeated; it is first on line 2."),
        ("{a: {b: 1, 'b': 1}}", "x:1: the key 'b' is repeated; it is first on line 1."),
        ("  \n", "x: the file is empty."),
        ("// nothing", "x:1: not valid JSON5: the text ends too early at column 11."),
        ("[" * 2000 + "]" * 2000, "x: is nested too deeply."),
        ("9" * 5000, "x: a number has too many digits."),
    ],
)
def test_a_mistake_is_placed_and_comes_with_a_fix(text: str, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_jsonc(text, source="x")
    assert str(raised.value).startswith(place)
    assert raised.value.fix


def test_a_syntax_error_shows_nothing_of_the_text_around_it() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_jsonc('{"token": "s3cret-value" oops}', source="x")
    assert "s3cret" not in str(raised.value)
    assert "oops" not in str(raised.value)


def test_a_place_that_has_no_line_is_that_of_its_parent() -> None:
    document = parse_jsonc('{\n"a": {\n"b": 1}}', source="x")
    assert document.locate(("a", "b", "deeper", 3)) == "x:3"
    assert document.locate(("absent",)) == "x:1"


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "bom.jsonc"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_jsonc(file).value == {"a": 1}


def test_a_pipe_is_read_to_its_end_and_one_without_a_writer_is_an_error_at_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe.jsonc"
    os.mkfifo(pipe)
    monkeypatch.setattr(documents, "PIPE_TIMEOUT_S", 0.01)
    with pytest.raises(ConfigError, match=r"pipe\.jsonc: cannot be read \(the pipe was not closed within 0\.01 s"):
        read_jsonc(pipe)

    monkeypatch.undo()
    large = {"a": "b" * 100_000}
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(pipe.write_text, json.dumps(large), "utf-8")
        assert read_jsonc(pipe).value == large
        written.result()


def test_files_that_cannot_be_read_are_named_with_the_reason(tmp_path: Path) -> None:
    broken = tmp_path / "latin1.jsonc"
    broken.write_bytes(b'{\n"a": "\xe4"}')
    huge = tmp_path / "huge.jsonc"
    huge.write_bytes(b" " * (MAX_CONFIG_BYTES + 1))
    looping = tmp_path / "loop.jsonc"
    looping.symlink_to(looping)
    for path, reason in [
        (tmp_path / "absent.jsonc", "the file does not exist. Create it or correct the path."),
        (tmp_path, "cannot be read (Is a directory)"),
        (looping, "cannot be read (Too many levels of symbolic links)"),
        (huge, "is larger than 256 KiB"),
    ]:
        with pytest.raises(ConfigError) as raised:
            read_jsonc(path)
        assert str(raised.value).startswith(f"{path}: {reason}")
    with pytest.raises(ConfigError) as raised:
        read_jsonc(broken)
    assert str(raised.value).startswith(f"{broken}:2: is not UTF-8 text")
