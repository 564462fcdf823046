"""Read YAML and remember the line of every key and item.

Only what settings need: mappings, lists and texts. A plain value is the text that it is written as, so that the
language `no` is no boolean; what reads the document knows which texts are numbers.
"""

from pathlib import Path
from typing import Any

import yaml

from toolweave.config.configuration_text import configuration_text
from toolweave.config.jsonc import JsoncDocument, JsonPath
from toolweave.errors import ConfigError

_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


def read_yaml(path: Path) -> JsoncDocument:
    """Read and parse a YAML file; one with comments only is an empty mapping.

    Raises:
        ConfigError: not readable, empty, not YAML, or more than settings need: a repeated key, an alias, several
            documents, a key that is no text; names file, line and fix.
    """
    return parse_yaml(configuration_text(path), source=str(path))


def parse_yaml(text: str, *, source: str) -> JsoncDocument:
    """Parse YAML text; `source` names it in errors, which never show the text.

    Raises:
        ConfigError: as `read_yaml`.
    """
    if not text.strip():
        raise ConfigError("the file is empty.", source=source, fix="Write at least {}.")
    lines: dict[JsonPath, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
        value = {} if node is None else _Walk(lines, source).value(node, ())
    except yaml.YAMLError as error:
        raise _syntax_error(text, error, source) from None
    except RecursionError:
        raise ConfigError("is nested too deeply.", source=source, fix="Remove the needless nesting.") from None
    return JsoncDocument(value=value, lines=lines, source=source)


class _Walk:
    """Turn nodes into values, and note their lines."""

    def __init__(self, lines: dict[JsonPath, int], source: str) -> None:
        self._lines = lines
        self._source = source
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, path: JsonPath) -> Any:
        if id(node) in self._seen:
            raise self._error(node, "an alias (*name) is not read here.", "Write the value out.")
        self._seen.add(id(node))
        self._lines.setdefault(path, _line(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, place)) for place, item in enumerate(node.value)]
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return None if plain and node.value in _NOTHING else node.value

    def _mapping(self, node: yaml.MappingNode, path: JsonPath) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a key must be a text.", "Put values with braces into quotes.")
            if key.value in members:
                raise self._error(key, "this key is given twice.", "Keep one of them.")
            self._lines[(*path, key.value)] = _line(key)
            members[key.value] = self.value(item, (*path, key.value))
        return members

    def _error(self, node: yaml.Node, problem: str, fix: str) -> ConfigError:
        return ConfigError(problem, source=f"{self._source}:{_line(node)}", fix=fix)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_error(text: str, error: yaml.YAMLError, source: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = getattr(error, "position", None)
    line = mark.line + 1 if mark else text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return ConfigError(
        f"not valid YAML: {problem}.",
        source=f"{source}:{line}",
        fix="Check indentation, colons, quotes and brackets there and just before.",
    )
