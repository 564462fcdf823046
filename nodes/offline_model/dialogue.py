"""Follow a conversation: what was spoken of last, what is still open, and what a reply to our question means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from toolweave.nodes.offline_model.conversation import Turn
from toolweave.nodes.offline_model.filling.completeness import checked
from toolweave.nodes.offline_model.filling.fill_new import fill_new
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.reply_value import read_value
from toolweave.nodes.offline_model.filling.targets import Target, read_target
from toolweave.nodes.offline_model.language.cues import find_cue
from toolweave.nodes.offline_model.language.literals import Literals, hide_literals
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.politeness import without_courteous_tail, without_courtesy
from toolweave.nodes.offline_model.language.vocabulary import CHANGING, READING
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.planning import TEXT_WINDOW, Reader, plan_message
from toolweave.nodes.offline_model.resolution import (
    Call,
    Finished,
    Focus,
    Question,
    Scene,
    Step,
    advance,
    with_target,
)
from toolweave.nodes.offline_model.tools.records import Record, match_records
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns
from toolweave.nodes.offline_model.tools.tool_results import ToolResult
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

MAX_TURNS = 6

_NO = pattern(
    r"(?:no|nope|nah|never ?mind|forget it|cancel|stop|don't|do not|leave it|none|neither|nothing)(?![\w-]).*"
)
_YES = pattern(
    r"(?:(?:yes|yeah|yep|yup|sure|ok(?:ay)?|right|correct|exactly|please do|do it|go ahead|that one"
    r"|that's (?:it|right|the one)|please)\b[\s,.!]*)+(?:do that|it is)?[\s.!]*"
)
_ALL = pattern(r"(?:both|all|everything|all of them|both of them)\W*")
_LONGEST_REPLY = 12


@dataclass(frozen=True)
class Reading:
    """How far a turn has come: every intent with its next steps, in order.

    `dropped` says that the user withdrew what was open, `cut` that the message was too long to be read whole.
    """

    steps: tuple[Step, ...]
    dropped: bool = False
    cut: bool = False

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
    reply = _read_reply(turn.text, question, today) if question else None
    if reply is not None:
        return Reading(_steps(reply, turn, tools, focus), dropped=not reply)
    plan = plan_message(turn.text, Reader(tools, today, _last_tool(before, tools)))
    return Reading(_steps(plan.intents, turn, tools, focus), cut=plan.cut)


def _steps(intents: Sequence[Intent], turn: Turn, tools: tuple[ToolSpec, ...], focus: Focus) -> tuple[Step, ...]:
    """Advance the intents; what reads, refers back or says "then" waits for the changes before it."""
    steps: list[Step] = []
    for intent in intents:
        waits = (
            intent.after
            or intent.tool.action in READING
            or (intent.target is not None and intent.target.kind == "pronoun")
        )
        if waits and any(isinstance(step, Call) and step.tool.action in CHANGING for step in steps):
            break
        made = _records_made(steps)
        here = Focus(made, focus.listing) if made else focus
        steps += advance(intent, Scene(tools, turn.results, here))
    return tuple(steps)


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


def _read_reply(text: str, question: Question, today: date) -> list[Intent] | None:
    """Read an answer to our question: intents, an empty list for "no", None when it speaks of something else."""
    plain = without_courteous_tail(text[:TEXT_WINDOW]).strip()
    if not plain:
        return None
    if _NO.fullmatch(plain):
        return []
    hidden, literals = hide_literals(text[:TEXT_WINDOW])
    intent, noun = question.intent, tool_nouns(question.intent.tool)
    if question.candidates:
        chosen = _chosen(plain, hidden, literals, question, noun)
        if chosen:
            return [with_target(intent, [record.id for record in chosen])]
    if find_cue(without_courtesy(hidden), noun).strength >= 3:
        return None
    if intent.missing or intent.too_long:
        return _completed(intent, without_courtesy(hidden), literals, today)
    if intent.target is not None and question.reason in ("missing", "none", "ambiguous", "unsure"):
        return _retargeted(intent, hidden, literals, noun)
    return None


def _completed(intent: Intent, text: str, literals: Literals, today: date) -> list[Intent] | None:
    """Fill in the parameter that was asked for."""
    asked = intent.too_long or intent.missing[0]
    if intent.tool.action == "create" and asked is intent.tool.main:
        filled = fill_new(intent.tool, text, literals, today)
        return [checked(replace(one, arguments={**intent.arguments, **one.arguments})) for one in filled] or None
    value = read_value(asked, text, literals, today)
    if value is None:
        return None
    return [checked(replace(intent, arguments={**intent.arguments, asked.name: value}, missing=(), too_long=None))]


def _retargeted(intent: Intent, hidden: str, literals: Literals, noun: str) -> list[Intent] | None:
    key = intent.tool.key
    target = read_target(without_courtesy(hidden), key, noun, literals) if key else None
    if target is None or target.kind in ("nothing", "pronoun"):
        return None
    return [replace(intent, target=target, missing=())]


def _chosen(plain: str, hidden: str, literals: Literals, question: Question, noun: str) -> list[Record]:
    """Find the candidates that a reply names: by number, place, title, or all of them."""
    candidates, key = question.candidates, question.intent.tool.key
    if _YES.fullmatch(plain):
        return list(candidates) if len(candidates) == 1 or question.reason == "confirm" else []
    if _ALL.fullmatch(plain):
        return list(candidates)
    target = read_target(without_courtesy(hidden), key, noun, literals) if key else Target("nothing")
    if target.kind == "place":
        return [candidates[target.place]] if -1 <= target.place < len(candidates) else []
    if target.kind == "ids":
        named = [record for record in candidates if record.id in target.ids]
        in_order = [
            candidates[number - 1] for number in target.ids if isinstance(number, int) and 0 < number <= len(candidates)
        ]
        return named or in_order
    if target.kind != "phrase" or len(words(target.text)) > _LONGEST_REPLY:
        return []
    match = match_records(target.text, target.stems, candidates)
    return [match.sure] if match.sure else []
