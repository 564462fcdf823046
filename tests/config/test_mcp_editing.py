"""An mcp file is edited where it must be, and nowhere else: its comments, order and style are its owner's."""

import json
import re
from typing import Any

import json5
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.mcp_texts import Written, mcp_texts
from toolweave.config.mcp_editing import parse_entries, with_enabled, with_entry, without_entry

COMMENT = re.compile(r"""/\*.*?\*/|//[^\r\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
ADDED = {"command": "new", "args": ["a b", "{env:X}"], "env": {"KEY": "//"}}


def comments_of(text: str) -> list[str]:
    return [found for found in COMMENT.findall(text) if found.startswith("/")]


def meaning(text: str) -> str:
    return json.dumps(json5.loads(text))


def squeezed(text: str) -> str:
    return "".join(text.split())


@settings(max_examples=30)
@given(mcp_texts(min_servers=1), st.data())
def test_an_entry_is_switched_and_nothing_else_changes(written: Written, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(written.names))
    on = data.draw(st.booleans())
    text = with_enabled(written.text, name, enabled=on)
    value = json5.loads(text)
    entry = value[written.top].pop(name)
    servers = dict(written.value[written.top])
    was = servers.pop(name)
    switches = {"enabled": entry.pop("enabled", True), "disabled": entry.pop("disabled", False)}
    assert (switches["enabled"] is True and switches["disabled"] is False) == on
    assert json.dumps(value) == json.dumps({**written.value, written.top: servers})
    assert entry == {key: item for key, item in was.items() if key not in switches}
    assert comments_of(text) == comments_of(written.text)
    assert with_enabled(text, name, enabled=on) == text
    other = with_enabled(text, name, enabled=not on)
    assert with_enabled(with_enabled(other, name, enabled=on), name, enabled=not on) == other


@settings(max_examples=30)
@given(mcp_texts())
def test_an_entry_is_added_at_the_end_and_can_be_taken_out_again(written: Written) -> None:
    text = with_entry(written.text, "new-one", ADDED)
    value = json5.loads(text)
    assert list(value[written.top]) == [*written.names, "new-one"]
    assert value[written.top].pop("new-one") == ADDED
    assert json.dumps(value) == json.dumps(written.value)
    assert comments_of(text) == comments_of(written.text)
    assert squeezed(without_entry(text, "new-one")) == squeezed(written.text)
    assert with_entry(text, "new-one", ADDED) == text


@settings(max_examples=30)
@given(mcp_texts(min_servers=1), st.data())
def test_an_entry_is_taken_out_with_its_own_comments_only(written: Written, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(written.names))
    text = without_entry(written.text, name)
    servers = {key: entry for key, entry in written.value[written.top].items() if key != name}
    assert meaning(text) == json.dumps({**written.value, written.top: servers})
    assert comments_of(text) == written.comments_without(name)


@settings(max_examples=15)
@given(mcp_texts(min_servers=1), mcp_texts(min_servers=1))
def test_an_entry_of_another_file_is_taken_over_or_put_in_the_place_of_one(mine: Written, theirs: Written) -> None:
    name = theirs.names[0]
    entry = parse_entries(theirs.text)[name]
    text = with_entry(mine.text, name, entry)
    servers = {**mine.value[mine.top], name: theirs.value[theirs.top][name]}
    assert meaning(text) == json.dumps({**mine.value, mine.top: servers})
    assert name in mine.names or squeezed(text) != squeezed(mine.text)


def test_an_entry_whose_text_has_line_separators_of_unicode_is_taken_over() -> None:
    entry = {"command": "a\x85b\u2028c"}
    copied = parse_entries(json.dumps({"servers": {"x": entry}}, ensure_ascii=False))["x"]
    assert json.loads(with_entry('{"servers": {}}', "x", copied)) == {"servers": {"x": entry}}


@settings(max_examples=15)
@given(st.dictionaries(st.sampled_from("abcd"), st.just({"command": "x"})), st.sampled_from([None, 2, "\t"]))
def test_plain_json_stays_plain_json(servers: dict[str, Any], indent: Any) -> None:
    commented = parse_entries('{servers: {x: {command: "y", // why\n}}}')["x"]
    text = json.dumps({"mcpServers": servers}, indent=indent)
    for edited in (with_entry(text, "new", ADDED), with_entry(text, "new", commented)):
        assert json.loads(edited)["mcpServers"].keys() == {*servers, "new"}
        json.loads(without_entry(edited, "new"))
    for name in servers:
        json.loads(without_entry(text, name))
        json.loads(with_enabled(text, name, enabled=False))


SHIPPED = """{
  "mcpServers": {
    // What it is for.
    "ready": {
      "enabled": false, // until wanted
      "args": [
        "x",
      ],
    },
  },
}
"""


def test_an_entry_comes_with_its_comments_in_the_indentation_of_its_new_place_and_goes_with_them() -> None:
    mine = '{\n\t"servers": {\n\t\t// mine\n\t\ta: {command: "x"} // note\n\t}\n}\n'.replace("\n", "\r\n")
    entry = parse_entries(with_enabled(SHIPPED, "ready", enabled=True))["ready"]
    text = with_entry(mine, "ready", entry)
    assert text.replace("\r\n", "\n") == (
        '{\n\t"servers": {\n\t\t// mine\n\t\ta: {command: "x"}, // note\n\t\t// What it is for.\n\t\t"ready": {'
        '\n\t\t\t"enabled": true, // until wanted\n\t\t\t"args": [\n\t\t\t\t"x",\n\t\t\t],\n\t\t}\n\t}\n}\n'
    )
    assert text.count("\r\n") == text.count("\n")
    assert without_entry(text, "ready", comment=entry.comment) == mine
    assert "\t// mine\r\n\t\t// What" in without_entry(text, "a", comment=entry.comment)
    assert without_entry(SHIPPED, "ready", comment=entry.comment) == '{\n  "mcpServers": {\n  },\n}\n'
