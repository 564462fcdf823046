"""Write the schema of the one function that a model calls to choose a request, for the tools it may choose (W-05)."""

import json
from collections.abc import Sequence
from typing import Any, get_args

from toolweave.nodes.workflow.descriptions import one_line
from toolweave.nodes.workflow.plain_schema import plain_schema
from toolweave.nodes.workflow.withheld import cleaned, withholding
from toolweave.tool_config import Method, ToolConfig

CHOOSE = "choose_request"
"""The function's name."""
LONGEST = 60_000
"""Characters of all input schemas; above it they go without words, and then the tools' descriptions alone must do."""

_ABOUT = (
    "Choose the tool and the request that does what the user asks for. Give tool_id and arguments; or, if no tool "
    "fits or a value that is needed is missing, give only reason."
)
_HTTP_SPEC = {
    "type": "object",
    "description": "The request as it will be sent, without credentials. It must agree with arguments.",
    "properties": {
        "method": {"type": "string", "enum": list(get_args(Method))},
        "url": {"type": "string", "description": "The whole URL with its placeholders filled in, without the query."},
        "headers": {"type": "object", "description": "Leave it out: headers are added when the request is sent."},
        "query": {"type": "object", "description": "Names and values of the query."},
        "body": {"type": "object", "description": "The JSON body."},
    },
    "required": ["method", "url"],
}
_REASON = {
    "type": "string",
    "description": "Only if no request can be made: why no tool fits, or which value the user has to add.",
}


def selection_schema(tools: Sequence[ToolConfig]) -> dict[str, Any]:
    """Return an OpenAI function: `tool_id`, `arguments`, `http_spec`, `reason`; none of them alone is required."""
    ids = [tool.tool_id for tool in tools]
    properties = {
        "tool_id": {"type": "string", "enum": ids, "description": "The tool_id of the chosen tool."},
        "arguments": _arguments(tools),
        "http_spec": _HTTP_SPEC,
        "reason": _REASON,
    }
    return {"name": CHOOSE, "description": _ABOUT, "parameters": {"type": "object", "properties": properties}}


def _arguments(tools: Sequence[ToolConfig]) -> dict[str, Any]:
    """Allow the arguments of any of the tools; each form is titled with the id of its tool."""
    for wordless in (False, True):
        forms = [_form(tool, wordless=wordless) for tool in tools]
        if len(json.dumps(forms)) <= LONGEST:
            return forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {"type": "object", "description": "The chosen tool's arguments, as its description lists them."}


def _form(tool: ToolConfig, *, wordless: bool) -> dict[str, Any]:
    clean = withholding(tool)
    plain = plain_schema(cleaned(tool.input_schema, clean), wordless=wordless)
    about = one_line(clean(f"{tool.name}: {tool.description}"), 100 if wordless else 300)
    return {**plain, "title": tool.tool_id, "description": about}
