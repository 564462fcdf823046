"""Follow a conversation: what was spoken of last, what is still open, and what a reply to our question means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from toolweave.nodes.offline_model.conversation import Turn
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.language.vocabulary import CHANGING, READING
from toolweave.nodes.offline_model.lookups import Call
from toolweave.nodes.offline_model.planning import Reader, plan_message
from toolweave.nodes.offline_model.replies import read_reply
from toolweave.nodes.offline_model.resolution import (
    Finished,
    Focus,
    Question,
    Scene,
    Step,
    advance,
)
from toolweave.nodes.offline_model.tools.records import Record
from toolweave.nodes.offline_model.tools.tool_results import ToolResult
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

MAX_TURNS = 6


@dataclass(frozen=True)
class Reading:
    """How far a turn has come: every intent with its next steps, in order.

    `dropped` says that the user withdrew what was open, `cut` that the message was too long to be read whole.
    `unclaimed` are results of calls that no intent asked for: somebody edited a call, or another model made it.
    """

    steps: tuple[Step, ...]
    dropped: bool = False
    cut: bool = False
    unclaimed: tuple[ToolResult, ...] = ()

    @property
    def calls(self) -> list[Call]:
        """List the calls that are due."""
        return [step for step in self.steps if isinstance(step, Call)]

    @property
    def results(self) -> list[ToolResult]:
        """List the results of the intents that came to an end."""
        return [step.result for step in self.steps if isinstance(step, Finished)]

    @property
    def questions(self) -> list[Question]:
        """List what only the user can answer."""
        return [step for step in self.steps if isinstance(step, Question)]


def read_dialogue(turns: Sequence[Turn], tools: tuple[ToolSpec, ...], today: date) -> Reading:
    """Read the last turn in the light of those before it."""
    *before, turn = turns
    focus = focus_of(before, tools)
    question = _open_question(before, tools, today)
    reply = read_reply(turn.text, question, today) if question else None
    if reply is not None:
        return replace(_advanced(reply, turn, tools, focus), dropped=not reply)
    plan = plan_message(turn.text, Reader(tools, today, _last_tool(before, tools)))
    return replace(_advanced(plan.intents, turn, tools, focus), cut=plan.cut)


def _advanced(intents: Sequence[Intent], turn: Turn, tools: tuple[ToolSpec, ...], focus: Focus) -> Reading:
    """Advance the intents; what reads, refers back or says "then" waits for the changes before it."""
    scene = Scene(tools, turn.results, focus)
    steps: list[Step] = []
    changing = False
    for intent in intents:
        refers = intent.target is not None and intent.target.kind == "pronoun"
        if changing and (intent.after or refers or intent.tool.action in READING):
            break
        made = _records_made(steps)
        new = advance(intent, replace(scene, focus=Focus(made, focus.listing)) if made else scene)
        changing = changing or (intent.tool.action in CHANGING and any(isinstance(step, Call) for step in new))
        steps += new
    unclaimed = tuple(result for key, result in turn.results.items() if key not in scene.claimed)
    return Reading(tuple(steps), unclaimed=unclaimed)


def _records_made(steps: Sequence[Step]) -> tuple[Record, ...]:
    results = [step.result for step in steps if isinstance(step, Finished)]
    return next((result.records for result in reversed(results) if result.ok and result.records), ())


def _open_question(before: Sequence[Turn], tools: tuple[ToolSpec, ...], today: date) -> Question | None:
    if not before or "?" not in before[-1].answer:
        return None
    return next(iter(read_dialogue(before, tools, today).questions), None)


def focus_of(before: Sequence[Turn], tools: Sequence[ToolSpec]) -> Focus:
    """Find the things the last turns were about; a turn without results changes nothing."""
    things: tuple[Record, ...] = ()
    listing: tuple[Record, ...] = ()
    actions = {tool.name: tool.action for tool in tools}
    for turn in reversed(before):
        answered = [result for result in turn.results.values() if result.ok]
        changed = [result for result in answered if actions.get(result.name) in ("create", "update")]
        read = [result for result in answered if actions.get(result.name) in READING and result.records]
        if not things and not listing and changed:
            things = tuple(record for result in changed for record in result.records or _from_arguments(result))
        if not listing and read and not changed:
            listing = read[-1].records
        if listing or (things and changed):
            break
    return Focus(things, listing)


def _from_arguments(result: ToolResult) -> tuple[Record, ...]:
    value = result.arguments.get("id")
    return (Record(value, "", {}),) if isinstance(value, int | str) and not isinstance(value, bool) else ()


def _last_tool(before: Sequence[Turn], tools: Sequence[ToolSpec]) -> ToolSpec | None:
    names = [result.name for turn in before[-1:] for result in turn.results.values()]
    return next((tool for tool in tools if names and tool.name == names[-1]), None)
