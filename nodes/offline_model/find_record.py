"""Bring an intent one step forward: find the record it means, make its call, or ask the user.

Nothing is stored between calls of the model: what was already done is read from the messages of the turn.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolweave.nodes.offline_model.arguments import value_meaning
from toolweave.nodes.offline_model.english import STOP_WORDS, lemma, stem, words
from toolweave.nodes.offline_model.fill import Intent
from toolweave.nodes.offline_model.results import CallKey, Record, ToolResult, call_key, match_records
from toolweave.nodes.offline_model.titles import Target
from toolweave.nodes.offline_model.tools import ToolSpec, wrong_parameters

Reason = Literal["missing", "ambiguous", "none", "unsure", "no_change", "confirm"]

_POINTING = frozenset({"both", "them", "these", "those"})
_MOST_SEARCH_WORDS = 6


@dataclass(frozen=True)
class Call:
    """A call to make."""

    tool: ToolSpec
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Finished:
    """An intent whose call was answered, well or not; a failed lookup counts, too."""

    intent: Intent
    result: ToolResult


@dataclass(frozen=True)
class Question:
    """An intent that only the user can bring further."""

    intent: Intent
    reason: Reason
    candidates: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Focus:
    """What the conversation is about: the records last changed or found, and the list last shown."""

    things: tuple[Record, ...] = ()
    listing: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What an intent is resolved against; `claimed` collects the results that some intent needs."""

    tools: tuple[ToolSpec, ...]
    results: Mapping[CallKey, ToolResult]
    focus: Focus
    claimed: set[CallKey] = field(default_factory=set)

    def result_of(self, call: Call) -> ToolResult | None:
        """Return the result of a call if it was made in this turn."""
        key = call_key(call.tool.name, call.arguments)
        if key in self.results:
            self.claimed.add(key)
        return self.results.get(key)


Step = Call | Finished | Question
_Thing = Record | int | str


def advance(intent: Intent, scene: Scene) -> list[Step]:
    """Return the next steps of an intent: calls that are due, or how it ended; several for several records."""
    if intent.too_long is not None or intent.missing or intent.unused:
        return [Question(intent, "missing")]
    key = intent.tool.key
    if intent.target is None or key is None:
        return [_called(intent, intent.arguments, scene)]
    optional = any(not one.required for one in intent.tool.parameters)
    if intent.tool.action == "update" and not intent.arguments and optional:
        return [Question(intent, "no_change")]
    found = _find(intent, intent.target, scene)
    return [_act(intent, key.name, thing, scene) for thing in found] if isinstance(found, list) else [found]


def with_target(intent: Intent, ids: Sequence[int | str]) -> Intent:
    """Point an intent at records that are known by now."""
    return replace(intent, target=Target("ids", ids=tuple(ids)), missing=())


def wanted_stems(target: Target, tool: ToolSpec) -> list[str]:
    """Return the stems that tell one record from another: not those of the noun that they all share."""
    common = {stem(noun) for noun in tool.nouns_and_synonyms}
    return [one for one in target.stems if one not in common] or target.stems


def _called(intent: Intent, arguments: Mapping[str, Any], scene: Scene) -> Step:
    call = Call(intent.tool, arguments)
    result = scene.result_of(call)
    return Finished(intent, result) if result else call


def _act(intent: Intent, key: str, thing: _Thing, scene: Scene) -> Step:
    arguments: dict[str, Any] = {key: thing.id if isinstance(thing, Record) else thing, **intent.arguments}
    if intent.added:
        record = thing if isinstance(thing, Record) else _look_up(thing, intent, scene)
        if isinstance(record, Call):
            return record
        for name in intent.added:
            present = record.data.get(name) if record else None
            if isinstance(present, list):
                arguments[name] = list(dict.fromkeys([*present, *arguments[name]]))
    if wrong_parameters(intent.tool.schema, arguments):
        return Question(intent, "none")
    return _called(intent, arguments, scene)


def _look_up(wanted: int | str, intent: Intent, scene: Scene) -> Record | Call | None:
    """Look a record up by its id, so that what it has is extended and not replaced."""
    call = _list_call(intent.tool, scene.tools)
    result = scene.result_of(call) if call else None
    if call and result is None:
        return call
    return next((record for record in result.records if record.id == wanted), None) if result else None


def _find(intent: Intent, target: Target, scene: Scene) -> list[_Thing] | Step:
    if target.kind == "ids":
        return list(target.ids)
    if target.kind == "pronoun":
        things = scene.focus.things or scene.focus.listing
        return [things[0]] if len(things) == 1 else Question(intent, "ambiguous" if things else "missing", things)
    if target.kind == "phrase":
        return _find_by_words(intent, target, scene)
    return Question(intent, "missing") if target.kind == "nothing" else _find_in_list(intent, target, scene)


def _find_in_list(intent: Intent, target: Target, scene: Scene) -> list[_Thing] | Step:
    """Find a record by its place, or all of them; in the list last shown if there is one and it is meant."""
    records = scene.focus.listing
    pointing = any(word in _POINTING for word in words(target.text))
    if not records or (target.kind == "everything" and not pointing):
        call = _list_call(intent.tool, scene.tools)
        result = scene.result_of(call) if call else None
        if call is None or result is None:
            return call or Question(intent, "missing")
        if not result.ok:
            return Finished(intent, result)
        records = result.records
    if not records:
        return Question(intent, "none")
    if target.kind == "everything":
        # "Both" can mean no others; anything wider is done only after a yes.
        return list(records) if pointing and len(records) <= 2 else Question(intent, "confirm", records)
    return [records[target.place]] if target.place < len(records) else Question(intent, "none")


def _find_by_words(intent: Intent, target: Target, scene: Scene) -> list[_Thing] | Step:
    wanted = wanted_stems(target, intent.tool)
    possible: tuple[Record, ...] = ()
    for call in (_search_call(intent.tool, target, wanted, scene.tools), _list_call(intent.tool, scene.tools)):
        if call is None:
            continue
        result = scene.result_of(call)
        if result is None:
            return call
        if not result.ok:
            return Finished(intent, result)
        match = match_records(target.text, wanted, result.records)
        if isinstance(match, Record):
            return [match]
        if len(match) > 1 and all(record.match(wanted) >= 1 for record in match):
            return Question(intent, "ambiguous", match)
        possible = possible or match
        several = _each_named(target, intent, result.records)
        if several:
            return several
    return Question(intent, "none" if not possible else "unsure" if len(possible) == 1 else "ambiguous", possible)


def _each_named(target: Target, intent: Intent, records: Sequence[Record]) -> list[_Thing]:
    """Find the records of "buy bread and buy milk", when every part names one for sure."""
    parts = [] if target.quoted else re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", target.text)
    named = [match_records(part, wanted_stems(replace(target, text=part), intent.tool), records) for part in parts]
    sure: list[_Thing] = [match for match in named if isinstance(match, Record)]
    return sure if len(sure) == len(parts) > 1 else []


def _search_call(tool: ToolSpec, target: Target, wanted: Sequence[str], tools: Sequence[ToolSpec]) -> Call | None:
    """Search among the things that a tool acts on for the words of a target."""
    for finding in tools:
        main = finding.main
        needed = [one for one in finding.parameters if one.required and one is not main]
        if finding.action != "search" or main is None or needed or not finding.shares_noun(tool):
            continue
        query = [lemma(word) for word in words(target.text) if stem(word) in wanted and word not in STOP_WORDS]
        short = " ".join(dict.fromkeys(query[:_MOST_SEARCH_WORDS]))
        arguments = {main.name: target.text if target.quoted or not short else short}
        if not wrong_parameters(finding.schema, arguments):
            return Call(finding, arguments)
    return None


def _list_call(tool: ToolSpec, tools: Sequence[ToolSpec]) -> Call | None:
    """List as much as there is of the things that a tool acts on."""
    for listing in tools:
        required = any(one.required for one in listing.parameters)
        if listing.action == "list" and listing.shares_noun(tool) and not required:
            arguments: dict[str, Any] = {}
            for one in listing.parameters:
                everything = value_meaning(one, "all") if one.choices else None
                most = one.schema.get("maximum") if one.role == "limit" else None
                value = most if everything is None else everything
                if value is not None:
                    arguments[one.name] = value
            wrong = wrong_parameters(listing.schema, arguments)
            return Call(listing, {name: value for name, value in arguments.items() if name not in wrong})
    return None
