"""Answer a structured output that is a choice among tools: which one with which arguments, or why none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.conversation import Turn
from toolweave.nodes.offline_model.operations.choice_schema import ToolChoiceForm, read_choice_form
from toolweave.nodes.offline_model.operations.choose_operation import Chosen, choose_operation
from toolweave.nodes.offline_model.small_talk import NOTICE
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

NO_OTHER_READING = "I can read these words in no other way, and what I chose was refused."


@dataclass(frozen=True)
class _Instructions:
    """The user's words; `refused` are the choices that were made for them before, as the conversation repeats them."""

    text: str
    refused: tuple[dict[str, Any], ...] = ()


def structured_choice(
    turns: Sequence[Turn], tools: Sequence[ToolSpec], name: str | None, today: date
) -> tuple[str, dict[str, Any]] | None:
    """Give the call that makes the choice; None when no such tool has to be called."""
    offered = [tool for tool in tools if name in (None, tool.name)]
    form = read_choice_form(offered[0]) if len(offered) == 1 else None
    if form is None:
        return None
    instructions = _instructions(turns, offered[0], form)
    chosen = choose_operation(instructions.text, form.operations, today)
    written = _written(chosen, form)
    if form.which in written and written in instructions.refused:
        written = _written(Chosen(reason=NO_OTHER_READING), form)
    return offered[0].name, written


def _written(chosen: Chosen, form: ToolChoiceForm) -> dict[str, Any]:
    if chosen.tool is not None:
        return {form.which: chosen.tool.name, form.arguments: dict(chosen.arguments or {})}
    return {form.reason: f"{chosen.reason} {NOTICE}"} if form.reason else {}


def _instructions(turns: Sequence[Turn], tool: ToolSpec, form: ToolChoiceForm) -> _Instructions:
    """Go back to the words that the choices before were made for: what follows a choice only says what is wrong."""
    refused: list[dict[str, Any]] = []
    text = turns[-1].text
    refused += _choices_of(turns[-1], tool, form)
    for turn in reversed(turns[:-1]):
        made = _choices_of(turn, tool, form)
        if not made:
            break
        refused += made
        text = turn.text
    return _Instructions(text, tuple(refused))


def _choices_of(turn: Turn, tool: ToolSpec, form: ToolChoiceForm) -> list[dict[str, Any]]:
    made = [dict(result.arguments) for result in turn.results.values() if result.name == tool.name]
    try:
        told = json.loads(turn.answer)
    except (ValueError, RecursionError):
        return made
    if isinstance(told, dict) and told and told.keys() <= form.fields:
        made.append(told)
    return made
