"""Keep in `x-toolweave` what a tool has and OpenAPI has no words for, so that an exported tool comes back the same.

A mapping into a nested body, the JSONPaths into an answer, the timeout, headers that are always sent: what the plain
document does not say, or says differently, stands there, and nothing else does. Credentials never do.
"""

from collections.abc import Callable
from typing import Any

from toolweave.tool_config import ToolConfig

KEYWORD = "x-toolweave"
_OF_TOOL = ("name", "description", "input_schema", "output_schema", "field_mappings")
_OF_API = ("headers", "timeout_s")


def own_words(config: ToolConfig, plainly: ToolConfig | None) -> dict[str, Any]:
    """Give what of `config` is not in the tool that the plain document makes."""
    wanted, said = _words(config), _words(plainly) if plainly else {}
    return {word: value for word, value in wanted.items() if word not in said or said[word] != value}


def with_own_words(config: dict[str, Any], raw: dict[str, Any], warn: Callable[[str], None]) -> dict[str, Any]:
    """Complete a configuration by the operation's `x-toolweave`; it cannot name a server, a path or a credential."""
    own = raw.get(KEYWORD)
    if not isinstance(own, dict):
        return config
    api = dict(config["api"])
    if isinstance(headers := own.get("headers"), dict):
        if any("{env:" in str(text) for text in headers.values()):
            warn(f"the headers in its {KEYWORD} are left out: they refer to variables")
        else:
            api["headers"] = _joined(headers, api["headers"])
    if "timeout_s" in own:
        api["timeout_s"] = own["timeout_s"]
    return {**config, **{word: own[word] for word in _OF_TOOL if word in own}, "api": api}


def _joined(own: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Add headers to those of the plain document: of these only the media type is replaced, never a credential."""
    names = {name.lower() for name in own}
    kept = {name: text for name, text in found.items() if name.lower() != "content-type" or name.lower() not in names}
    taken = {name.lower() for name in kept}
    return {**{name: text for name, text in own.items() if name.lower() not in taken}, **kept}


def _words(config: ToolConfig) -> dict[str, Any]:
    dumped = config.model_dump(mode="json", include={*_OF_TOOL, "api"})
    api = dumped.pop("api")
    secret = config.secret_headers
    return {
        **dumped,
        **{word: api[word] for word in _OF_API},
        "headers": {name: text for name, text in api["headers"].items() if name not in secret},
    }
