"""Bring an intent one step forward: find the thing it means, make its call, or ask the user.

Nothing is remembered between calls of the model: what was already done is read from the messages of the turn.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolweave.nodes.offline_model.conversation import CallKey, call_key
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.targets import Target
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.lookups import Call, distinctive_stems, list_call, search_call
from toolweave.nodes.offline_model.tools.records import Record, match_records
from toolweave.nodes.offline_model.tools.tool_results import ToolResult
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec
from toolweave.nodes.offline_model.tools.validation import wrong_parameters

Reason = Literal["missing", "too_long", "ambiguous", "none", "unsure", "no_change", "confirm"]

_POINTING = frozenset({"both", "them", "these", "those"})


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
    """What the talk is about: the things last changed or found, and the list last shown."""

    things: tuple[Record, ...] = ()
    listing: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What an intent is resolved against; `claimed` collects the results that some intent asked for."""

    tools: tuple[ToolSpec, ...]
    results: Mapping[CallKey, ToolResult]
    focus: Focus
    claimed: set[CallKey] = field(default_factory=set)

    def answer_to(self, call: Call) -> ToolResult | None:
        """Give the result of a call if it was made in this turn."""
        key = call_key(call.tool.name, call.arguments)
        if key in self.results:
            self.claimed.add(key)
        return self.results.get(key)


Step = Call | Finished | Question
_Thing = Record | int | str


def advance(intent: Intent, scene: Scene) -> list[Step]:
    """Give the next steps of an intent: calls that are due, or how it ended; several for several things."""
    if intent.too_long is not None:
        return [Question(intent, "too_long")]
    if intent.missing:
        return [Question(intent, "missing")]
    key = intent.tool.key
    if intent.target is None or key is None:
        return [_called(intent, intent.arguments, scene)]
    if (
        intent.tool.action == "update"
        and not intent.arguments
        and any(not one.required for one in intent.tool.parameters)
    ):
        return [Question(intent, "no_change")]
    found = _find(intent, intent.target, scene)
    return [_act(intent, key.name, thing, scene) for thing in found] if isinstance(found, list) else [found]


def with_target(intent: Intent, ids: Sequence[int | str]) -> Intent:
    """Point an intent at things that are known by now."""
    return replace(intent, target=Target("ids", ids=tuple(ids)), missing=())


def _called(intent: Intent, arguments: Mapping[str, Any], scene: Scene) -> Step:
    call = Call(intent.tool, arguments)
    result = scene.answer_to(call)
    return Finished(intent, result) if result else call


def _act(intent: Intent, key: str, thing: _Thing, scene: Scene) -> Step:
    arguments: dict[str, Any] = {key: thing.id if isinstance(thing, Record) else thing, **intent.arguments}
    if intent.added:
        record = thing if isinstance(thing, Record) else _record_of(thing, intent, scene)
        if isinstance(record, Call):
            return record
        for name in intent.added:
            present = record.data.get(name) if record else None
            if isinstance(present, list):
                arguments[name] = list(dict.fromkeys([*present, *arguments[name]]))
    if wrong_parameters(intent.tool.schema, arguments):
        return Question(intent, "none")
    return _called(intent, arguments, scene)


def _record_of(wanted: int | str, intent: Intent, scene: Scene) -> Record | Call | None:
    """Look a thing up by its id, so that what it has is extended and not replaced."""
    call = list_call(intent.tool, scene.tools)
    result = scene.answer_to(call) if call else None
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
    if target.kind == "nothing":
        return Question(intent, "missing")
    return _find_in_list(intent, target, scene)


def _find_in_list(intent: Intent, target: Target, scene: Scene) -> list[_Thing] | Step:
    """Find a thing by its place, or everything; in the list last shown if there is one and it is meant."""
    records = scene.focus.listing
    pointing = any(word in _POINTING for word in words(target.text))
    if not records or (target.kind == "everything" and not pointing):
        call = list_call(intent.tool, scene.tools)
        result = scene.answer_to(call) if call else None
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
    wanted = distinctive_stems(target, intent.tool)
    possible: tuple[Record, ...] = ()
    for call in (search_call(intent.tool, target, wanted, scene.tools), list_call(intent.tool, scene.tools)):
        if call is None:
            continue
        result = scene.answer_to(call)
        if result is None:
            return call
        if not result.ok:
            return Finished(intent, result)
        match = match_records(target.text, wanted, result.records)
        if match.sure:
            return [match.sure]
        if len(match.possible) > 1 and all(record.describes(wanted) >= 1 for record in match.possible):
            return Question(intent, "ambiguous", match.possible)
        possible = possible or match.possible
        several = _each_named(target, intent, result.records)
        if several:
            return several
    return Question(intent, "none" if not possible else "unsure" if len(possible) == 1 else "ambiguous", possible)


def _each_named(target: Target, intent: Intent, records: Sequence[Record]) -> list[_Thing]:
    """Find the things of "buy bread and buy milk", when every part names one for sure."""
    parts = [] if target.quoted else re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", target.text)
    if len(parts) < 2:
        return []
    matches = [
        match_records(part, distinctive_stems(replace(target, text=part), intent.tool), records).sure for part in parts
    ]
    return [record for record in matches if record] if all(matches) else []
