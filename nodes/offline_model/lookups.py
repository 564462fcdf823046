"""Make the calls that look for the thing a request means: a search for its words, a list of everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolweave.nodes.offline_model.filling.choices import value_meaning
from toolweave.nodes.offline_model.filling.targets import Target
from toolweave.nodes.offline_model.language.words import STOP_WORDS, lemma, stem, words
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec
from toolweave.nodes.offline_model.tools.validation import wrong_parameters

_MOST_SEARCH_WORDS = 6


@dataclass(frozen=True)
class Call:
    """A call to make."""

    tool: ToolSpec
    arguments: Mapping[str, Any]


def distinctive_stems(target: Target, tool: ToolSpec) -> list[str]:
    """Give the stems that tell one thing from another: not those of the noun that they all share."""
    common = {stem(noun) for noun in tool.nouns_and_synonyms}
    listed = target.stems
    return [one for one in listed if one not in common] or listed


def search_call(tool: ToolSpec, target: Target, wanted: Sequence[str], tools: Sequence[ToolSpec]) -> Call | None:
    """Search among the things that a tool acts on for the words of a target."""
    for finding in tools:
        main = finding.main
        needed = [one for one in finding.parameters if one.required and one is not main]
        if finding.action != "search" or main is None or needed or not finding.shares_noun(tool):
            continue
        listed = [lemma(word) for word in words(target.text) if stem(word) in wanted and word not in STOP_WORDS]
        short = " ".join(dict.fromkeys(listed[:_MOST_SEARCH_WORDS]))
        arguments = {main.name: target.text if target.quoted or not short else short}
        if not wrong_parameters(finding.schema, arguments):
            return Call(finding, arguments)
    return None


def list_call(tool: ToolSpec, tools: Sequence[ToolSpec]) -> Call | None:
    """List as much as there is of the things that a tool acts on."""
    for listing in tools:
        if (
            listing.action == "list"
            and listing.shares_noun(tool)
            and not any(one.required for one in listing.parameters)
        ):
            arguments = _everything(listing)
            wrong = wrong_parameters(listing.schema, arguments)
            return Call(listing, {name: value for name, value in arguments.items() if name not in wrong})
    return None


def _everything(tool: ToolSpec) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for parameter in tool.parameters:
        everything = value_meaning(parameter, "all") if parameter.choices else None
        if everything is not None:
            arguments[parameter.name] = everything
        most = parameter.schema.get("maximum")
        if parameter.role == "limit" and isinstance(most, int):
            arguments[parameter.name] = most
    return arguments
