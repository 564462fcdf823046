"""Decide what the model says next: calls of tools, or an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from toolweave.nodes.offline_model.answers import ask, tell_results, with_notice
from toolweave.nodes.offline_model.conversation import Turn, call_key, read_turns
from toolweave.nodes.offline_model.dialogue import MAX_TURNS, Reading, read_dialogue
from toolweave.nodes.offline_model.forced_call import forced_call
from toolweave.nodes.offline_model.resolution import Finished, Question
from toolweave.nodes.offline_model.small_talk import small_talk
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

# A turn ends after this many calls even if the rules would go on.
MAX_CALLS_IN_TURN = 40


@dataclass(frozen=True)
class ToolChoice:
    """What the caller asks of the next message: any (`name` may say which) tool, none, or whatever fits."""

    mode: Literal["auto", "none", "required"] = "auto"
    name: str | None = None


@dataclass(frozen=True)
class Decision:
    """The next message: calls as (name, arguments), or a text."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def decide(messages: Sequence[BaseMessage], tools: tuple[ToolSpec, ...], choice: ToolChoice, today: date) -> Decision:
    """Read the conversation and decide; the same messages always lead to the same decision (O-01)."""
    turns = read_turns(messages, most=MAX_TURNS)
    turn = turns[-1]
    if choice.mode == "required" and tools:
        forced = forced_call(turn.text, tools, choice.name, today)
        if forced and call_key(*forced) not in turn.results:
            return Decision(calls=(forced,))
    usable = () if choice.mode == "none" else tools
    reading = read_dialogue(turns, usable, today) if usable else Reading(())
    calls = [(call.tool.name, dict(call.arguments)) for call in reading.calls]
    fresh = {call_key(*call): call for call in calls if call_key(*call) not in turn.results}
    if fresh and len(turn.results) < MAX_CALLS_IN_TURN:
        return Decision(calls=tuple(fresh.values()))
    return Decision(text=_answer(turn, reading, tools))


def _answer(turn: Turn, reading: Reading, tools: Sequence[ToolSpec]) -> str:
    finished = [step.result for step in reading.steps if isinstance(step, Finished)]
    questions = [ask(step) for step in reading.steps if isinstance(step, Question)]
    if not finished and not questions and turn.results:
        # Results of calls that the rules would not have made (another model's, or the tools are gone): still told.
        finished = list(turn.results.values())
    told = tell_results(finished, tools) if finished else ""
    if questions:
        return "\n\n".join(part for part in (told, with_notice("\n\n".join(dict.fromkeys(questions)))) if part)
    return told or with_notice(small_talk(turn.text, tools, dropped=reading.dropped))
