"""Bring an intent one step forward: find the thing it means, make its call, or ask the user.

Nothing is remembered between calls of the model: what was already done is read from the messages of the turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolweave.nodes.offline_model.conversation import CallKey, call_key
from toolweave.nodes.offline_model.filling.choices import value_meaning
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.targets import Target
from toolweave.nodes.offline_model.language.words import STOP_WORDS, lemma, stem, words
from toolweave.nodes.offline_model.tools.records import Record, match_records
from toolweave.nodes.offline_model.tools.tool_results import ToolResult
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

Reason = Literal["missing", "too_long", "ambiguous", "none", "unsure", "no_change", "confirm"]


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
    """What the talk is about: the things last changed or found, and the list last shown."""

    things: tuple[Record, ...] = ()
    listing: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What an intent is resolved against."""

    tools: tuple[ToolSpec, ...]
    results: Mapping[CallKey, ToolResult]
    focus: Focus


Step = Call | Finished | Question


def advance(intent: Intent, scene: Scene) -> list[Step]:
    """Give the next steps of an intent: calls that are due, or how it ended; several for several things."""
    if intent.too_long is not None:
        return [Question(intent, "too_long")]
    if intent.missing:
        return [Question(intent, "missing")]
    if intent.target is None:
        return [_called(intent, intent.arguments, scene)]
    if intent.tool.action == "update" and not intent.arguments and _can_change(intent.tool):
        return [Question(intent, "no_change")]
    found = _find(intent, intent.target, scene)
    if not isinstance(found, list):
        return [found]
    key = intent.tool.key
    return [_act(intent, key.name if key else "id", one, scene) for one in found]


def _can_change(tool: ToolSpec) -> bool:
    return any(not parameter.required for parameter in tool.parameters)


def _called(intent: Intent, arguments: Mapping[str, Any], scene: Scene) -> Step:
    result = scene.results.get(call_key(intent.tool.name, arguments))
    return Finished(intent, result) if result else Call(intent.tool, arguments)


def _act(intent: Intent, key: str, thing: Record | int | str, scene: Scene) -> Step:
    arguments: dict[str, Any] = {key: thing.id if isinstance(thing, Record) else thing, **intent.arguments}
    for name in intent.added:
        record = thing if isinstance(thing, Record) else _record_of(thing, intent, scene)
        if isinstance(record, Call):
            return record
        present = record.data.get(name) if record else None
        if isinstance(present, list):
            arguments[name] = list(dict.fromkeys([*present, *arguments[name]]))
    return _called(intent, arguments, scene)


def _record_of(wanted: int | str, intent: Intent, scene: Scene) -> Record | Call | None:
    """Look a thing up by its id, so that what it has is extended and not replaced."""
    listing = _listing(intent.tool, scene.tools)
    if listing is None:
        return None
    call = Call(listing, _list_all(listing))
    result = scene.results.get(call_key(call.tool.name, call.arguments))
    if result is None:
        return call
    return next((record for record in result.records if record.id == wanted), None)


def _find(intent: Intent, target: Target, scene: Scene) -> list[Record | int | str] | Step:
    if target.kind == "ids":
        return list(target.ids)
    if target.kind == "pronoun":
        things = scene.focus.things or scene.focus.listing
        if len(things) == 1 or (things and target.text == "them"):
            return list(things)
        return Question(intent, "ambiguous" if things else "missing", tuple(things))
    if target.kind == "phrase":
        return _find_by_words(intent, target, scene)
    if target.kind in ("place", "everything"):
        return _find_in_list(intent, target, scene)
    return Question(intent, "missing")


def _find_in_list(intent: Intent, target: Target, scene: Scene) -> list[Record | int | str] | Step:
    records: Sequence[Record] = scene.focus.listing
    pointing = any(word in ("both", "them", "these", "those") for word in words(target.text))
    if not records or (target.kind == "everything" and not pointing):
        looked = _look(_listing(intent.tool, scene.tools), intent, scene)
        if not isinstance(looked, tuple):
            return looked
        records = looked
    if target.kind == "everything":
        if pointing and len(records) <= 2:
            return list(records)
        return Question(intent, "confirm", tuple(records)) if records else Question(intent, "none")
    if -1 <= target.place < len(records) and records:
        return [records[target.place]]
    return Question(intent, "none")


def _find_by_words(intent: Intent, target: Target, scene: Scene) -> list[Record | int | str] | Step:
    finding = next(
        (tool for tool in scene.tools if tool.action == "search" and tool.shares_noun(intent.tool) and tool.main), None
    )
    wanted = _distinctive(target, intent.tool)
    possible: tuple[Record, ...] = ()
    for call in (_search_for(finding, target, wanted), _list_call(intent.tool, scene.tools)):
        if call is None:
            continue
        result = scene.results.get(call_key(call.tool.name, call.arguments))
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
    reason: Reason = "none" if not possible else "unsure" if len(possible) == 1 else "ambiguous"
    return Question(intent, reason, possible)


def _look(tool: ToolSpec | None, intent: Intent, scene: Scene) -> tuple[Record, ...] | Step:
    if tool is None:
        return Question(intent, "missing")
    call = Call(tool, _list_all(tool))
    result = scene.results.get(call_key(tool.name, call.arguments))
    if result is None:
        return call
    return result.records if result.ok else Finished(intent, result)


def _distinctive(target: Target, tool: ToolSpec) -> list[str]:
    """Give the stems that tell one thing from another: not the noun that they all share."""
    common = {stem(noun) for noun in tool.nouns_and_synonyms}
    listed = target.stems
    return [one for one in listed if one not in common] or listed


def _search_for(tool: ToolSpec | None, target: Target, wanted: Sequence[str]) -> Call | None:
    if tool is None or tool.main is None:
        return None
    listed = [lemma(word) for word in words(target.text) if stem(word) in wanted and word not in STOP_WORDS]
    query = target.text if target.quoted or not listed else " ".join(dict.fromkeys(listed[:6]))
    return Call(tool, {tool.main.name: query}) if query else None


def _list_call(tool: ToolSpec, tools: Sequence[ToolSpec]) -> Call | None:
    listing = _listing(tool, tools)
    return Call(listing, _list_all(listing)) if listing else None


def _listing(tool: ToolSpec, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    return next(
        (
            one
            for one in tools
            if one.action == "list" and one.shares_noun(tool) and not any(needed.required for needed in one.parameters)
        ),
        None,
    )


def _list_all(tool: ToolSpec) -> dict[str, Any]:
    """Give the arguments that list as much as the tool allows."""
    arguments: dict[str, Any] = {}
    for parameter in tool.parameters:
        everything = value_meaning(parameter, "all") if parameter.choices else None
        if everything is not None:
            arguments[parameter.name] = everything
        most = parameter.schema.get("maximum")
        if parameter.role == "limit" and isinstance(most, int):
            arguments[parameter.name] = most
    return arguments


def with_target(intent: Intent, ids: Sequence[int | str]) -> Intent:
    """Point an intent at things that are known by now."""
    return replace(intent, target=Target("ids", ids=tuple(ids)), missing=())
