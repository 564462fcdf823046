"""Decide whether the arguments of an intent can be sent: none the schema refuses, none that must be there missing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.validation import wrong_parameters


def checked(intent: Intent) -> Intent:
    """Drop the arguments that the schema refuses and name the required ones that are missing."""
    tool = intent.tool
    wrong = wrong_parameters(tool.schema, intent.arguments)
    arguments = {name: value for name, value in intent.arguments.items() if name not in wrong}
    too_long = next((one for one in tool.parameters if one.name in wrong and _is_too_long(one, intent.arguments)), None)
    for parameter in tool.parameters:
        if parameter.required and len(parameter.choices) == 1:
            arguments.setdefault(parameter.name, parameter.choices[0])
    found_later = tool.key.name if intent.target and tool.key else None
    missing = tuple(
        one
        for one in tool.parameters
        if one.required and one.name not in arguments and one.name != found_later and "default" not in one.schema
    )
    return replace(intent, arguments=arguments, missing=missing, too_long=too_long)


def _is_too_long(parameter: Parameter, arguments: Mapping[str, Any]) -> bool:
    value, most = arguments.get(parameter.name), parameter.schema.get("maxLength")
    return isinstance(value, str) and isinstance(most, int) and len(value) > most
