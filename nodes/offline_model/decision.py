"""Decide what the model says next: calls of tools, or an answer."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from toolweave.nodes.offline_model.answers import tell_results
from toolweave.nodes.offline_model.conversation import Turn, call_key, read_turns
from toolweave.nodes.offline_model.dialogue import MAX_TURNS, Reading, read_dialogue
from toolweave.nodes.offline_model.documents import tell_document
from toolweave.nodes.offline_model.forced_call import forced_call
from toolweave.nodes.offline_model.operations.structured_choice import structured_choice
from toolweave.nodes.offline_model.questions import ask
from toolweave.nodes.offline_model.scripts.page_fetching import next_fetch
from toolweave.nodes.offline_model.scripts.script_writing import written_call
from toolweave.nodes.offline_model.small_talk import small_talk, with_notice
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

# One message asks for this many calls at most, the next one goes on; a turn ends after so many in all.
MAX_CALLS_AT_ONCE = 20
MAX_CALLS_IN_TURN = 100


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
        written = written_call(messages, tools, choice.name)
        if written:
            return Decision(calls=(written,))
        chosen = structured_choice(turns, tools, choice.name, today)
        if chosen:
            return Decision(calls=(chosen,))
        forced = forced_call(turn.text, tools, choice.name, today)
        if forced and call_key(*forced) not in turn.results:
            return Decision(calls=(forced,))
    if choice.mode == "auto" and tools and (step := next_fetch(messages, turn, tools, today)):
        return Decision(step.text, (step.call,) if step.call else ())
    reading = read_dialogue(turns, tools, today) if tools and choice.mode != "none" else Reading(())
    due = list({call_key(*call): call for call in _due(reading)}.values())
    if due and len(turn.results) < MAX_CALLS_IN_TURN:
        return Decision(calls=tuple(due[:MAX_CALLS_AT_ONCE]))
    return Decision(text=_answer(turn, reading, tools, undone=len(due)))


def _due(reading: Reading) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the calls that are still to be made.

    A result that no intent asked for stands for one call of its tool: whoever changed the call had a reason, and
    asking for the same thing again could go on for ever.
    """
    instead = Counter(result.name for result in reading.unclaimed)
    for call in reading.calls:
        if instead[call.tool.name]:
            instead[call.tool.name] -= 1
        else:
            yield call.tool.name, dict(call.arguments)


def _answer(turn: Turn, reading: Reading, tools: Sequence[ToolSpec], *, undone: int) -> str:
    # Without tools nothing was asked for, and yet there may be results to tell.
    finished = [*reading.results, *reading.unclaimed] if reading.steps else list(turn.results.values())
    told = tell_results(finished, tools) if finished else ""
    remarks = [ask(question) for question in reading.questions]
    if undone:
        remarks.append(f"I stopped after {len(turn.results)} calls in one turn; {undone} more were asked for.")
    if reading.cut:
        remarks.append("I read only the first part of your message, because it is very long.")
    if not told and not remarks and not tools and (document := tell_document(turn.text)):
        remarks = [document]
    if not told and not remarks:
        remarks = [small_talk(turn.text, tools, dropped=reading.dropped)]
    said = with_notice("\n\n".join(dict.fromkeys(remarks))) if remarks else ""
    return "\n\n".join(part for part in (told, said) if part)
