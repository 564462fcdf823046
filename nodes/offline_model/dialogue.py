"""Decide the next step of a conversation: which records it is about, what a reply means, what to call, ask or answer.

Nothing is stored between calls of the model: earlier calls are read from the messages.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

from toolweave.nodes.offline_model import english
from toolweave.nodes.offline_model.choose_tool import MAX_MESSAGE_CHARS, Context, best_tools, plan_message
from toolweave.nodes.offline_model.clauses import SURE, find_cue
from toolweave.nodes.offline_model.extraction import value_synonyms
from toolweave.nodes.offline_model.fill_tool import Intent, check_intent, fill_new, parse_value, unexplained_words
from toolweave.nodes.offline_model.results import (
    NOTICE,
    CallKey,
    Record,
    Reply,
    ToolResult,
    Turn,
    call_key,
    cut_lines,
    describe_api_answer,
    describe_results,
    label,
    match_records,
    plural,
)
from toolweave.nodes.offline_model.titles import Target, read_target
from toolweave.nodes.offline_model.tools import ToolSpec, invalid_parameters

QuestionReason = Literal["missing", "ambiguous", "none", "unsure", "no_change", "confirm"]
_POINTING_WORDS = frozenset({"both", "them", "these", "those"})
_MAX_SEARCH_WORDS = 6


@dataclass(frozen=True)
class NextCall:
    """A call to make."""

    tool: ToolSpec
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class FinishedIntent:
    """An intent whose call or lookup has a result, successful or not."""

    intent: Intent
    result: ToolResult


@dataclass(frozen=True)
class Question:
    """An intent that needs an answer from the user."""

    intent: Intent
    reason: QuestionReason
    candidates: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Focus:
    """The records last changed or found, and the list last shown."""

    things: tuple[Record, ...] = ()
    listing: tuple[Record, ...] = ()


Step = NextCall | FinishedIntent | Question
_RecordOrId = Record | int | str


class _SearchStopped(Exception):
    """The search for a record stopped at a step: a lookup that is due or has failed, or a question."""

    def __init__(self, step: Step) -> None:
        self.step = step


@dataclass(frozen=True)
class DialogueState:
    """The tools, results, focus and day that resolve an intent; `claimed` collects the results that intents used."""

    tools: tuple[ToolSpec, ...]
    results: Mapping[CallKey, ToolResult]
    focus: Focus
    today: date
    claimed: set[CallKey] = field(default_factory=set)

    def next_step(self, intent: Intent, call: NextCall) -> NextCall | FinishedIntent:
        """Return the call if it is due, else its result in this turn."""
        key = call_key(call.tool.name, call.arguments)
        if key not in self.results:
            return call
        self.claimed.add(key)
        return FinishedIntent(intent, self.results[key])

    def look_up(self, intent: Intent, call: NextCall | None) -> tuple[Record, ...]:
        """Return the records of a lookup; raise _SearchStopped if it is impossible, due, or has failed."""
        step = self.next_step(intent, call) if call else Question(intent, "missing")
        if isinstance(step, FinishedIntent) and step.result.ok:
            return step.result.records
        raise _SearchStopped(step)


def next_steps(intent: Intent, state: DialogueState) -> list[Step]:
    """Return the next steps of an intent, one per record: calls that are due, or their results."""
    if intent.too_long is not None or intent.missing or intent.unused:
        return [Question(intent, "missing")]
    key = intent.tool.key
    if intent.target is None or key is None:
        return [state.next_step(intent, NextCall(intent.tool, intent.arguments))]
    optional = any(not one.required for one in intent.tool.parameters)
    if intent.tool.action == "update" and not intent.arguments and optional:
        return [Question(intent, "no_change")]
    try:
        return [_step_for(intent, key.name, thing, state) for thing in _find_targets(intent, intent.target, state)]
    except _SearchStopped as stopped:
        return [stopped.step]


def distinctive_stems(target: Target, tool: ToolSpec) -> list[str]:
    """Return the target's stems, without those of the noun that all records share."""
    common = {english.stem(noun) for noun in tool.nouns_and_synonyms}
    return [one for one in target.stems if one not in common] or target.stems


def _step_for(intent: Intent, key: str, thing: _RecordOrId, state: DialogueState) -> Step:
    arguments: dict[str, Any] = {key: thing.id if isinstance(thing, Record) else thing, **intent.arguments}
    for name in intent.added:
        # Extend the record's list; do not replace it.
        known = [thing] if isinstance(thing, Record) else state.look_up(intent, _list_call(intent.tool, state.tools))
        present = next((record.data.get(name) for record in known if record.id == arguments[key]), None)
        if isinstance(present, list):
            arguments[name] = list(dict.fromkeys([*present, *arguments[name]]))
    if invalid_parameters(intent.tool.schema, arguments):
        return Question(intent, "none")
    return state.next_step(intent, NextCall(intent.tool, arguments))


def _find_targets(intent: Intent, target: Target, state: DialogueState) -> Sequence[_RecordOrId]:
    """Return the records or ids that a target names, from the list last shown if it refers to that, else by lookups."""
    if target.kind == "ids":
        return target.ids
    if target.kind == "phrase":
        return _find_by_words(intent, target, state)
    if target.kind == "pronoun":
        things = state.focus.things or state.focus.listing
        if len(things) != 1:
            raise _SearchStopped(Question(intent, "ambiguous" if things else "missing", things))
        return things
    if target.kind == "nothing":
        raise _SearchStopped(Question(intent, "missing"))
    if intent.tool.action == "update" and target.kind == "everything" and len(intent.arguments) > 1:
        # One of them limits the others: "mark everything due today as done".
        raise _SearchStopped(Question(replace(intent, unused=(target.text,)), "missing"))
    records = state.focus.listing
    pointing = any(word in _POINTING_WORDS for word in english.words(target.text))
    if not records or (target.kind == "everything" and not pointing):
        records = state.look_up(intent, _list_call(intent.tool, state.tools))
    if target.place >= len(records):
        raise _SearchStopped(Question(intent, "none"))
    # "Both" is unambiguous; anything wider needs a confirmation.
    if target.kind == "everything" and (not pointing or len(records) > 2):
        raise _SearchStopped(Question(intent, "confirm", records))
    return records if target.kind == "everything" else [records[target.place]]


def _find_by_words(intent: Intent, target: Target, state: DialogueState) -> Sequence[_RecordOrId]:
    distinctive = distinctive_stems(target, intent.tool)
    possible: tuple[Record, ...] = ()
    for call in (_search_call(intent.tool, target, distinctive, state.tools), _list_call(intent.tool, state.tools)):
        records = state.look_up(intent, call) if call else ()
        match = _match_target(target, intent, records, state.today)
        if not target.quoted and (limits := _limits(target.text, match)):
            raise _SearchStopped(Question(replace(intent, unused=limits), "missing"))
        if isinstance(match, Record):
            return [match]
        if len(match) > 1 and all(record.match_score(distinctive) >= 1 for record in match):
            raise _SearchStopped(Question(intent, "ambiguous", match))
        possible = possible or match
        if several := _find_each_part(target, intent, records, state.today):
            return several
    if len(possible) == 1:
        intent = replace(intent, unused=_unused_words(target, intent, possible[0], state.today))
        fields = {word for tool in state.tools for one in tool.parameters for word in one.words}
        if intent.tool.action == "delete" and not fields.isdisjoint(intent.unused):
            # "Remove its due date" is no request to delete it.
            raise _SearchStopped(Question(intent, "missing"))
    reason: QuestionReason = "none" if not possible else "unsure" if len(possible) == 1 else "ambiguous"
    raise _SearchStopped(Question(intent, reason, possible))


def _limits(text: str, match: Sequence[Record] | Record) -> tuple[str, ...]:
    """Return the words that limit a text ("all but milk") and are in no record's title."""
    titles = {word for one in ([match] if isinstance(match, Record) else match) for word in english.words(one.title)}
    return tuple(word for word in english.words(text) if word in english.LIMITING_WORDS - titles)


def _match_target(
    target: Target, intent: Intent, records: Sequence[Record], today: date
) -> tuple[Record, ...] | Record:
    """Return the record that a target clearly names, with no word unused, else all that it may name."""
    match = match_records(target.text, distinctive_stems(target, intent.tool), records)
    return (match,) if isinstance(match, Record) and _unused_words(target, intent, match, today) else match


def _unused_words(target: Target, intent: Intent, record: Record, today: date) -> tuple[str, ...]:
    """Return the words of a change's target that are not in the record and have no other meaning (U-04)."""
    if intent.tool.action in english.READ_ACTIONS:
        return ()
    return record.absent(unexplained_words(target.text, [replace(intent, target=None)], today))


def _find_each_part(target: Target, intent: Intent, records: Sequence[Record], today: date) -> list[_RecordOrId]:
    """Return the records of "buy bread and buy milk" if every part clearly names one."""
    parts = [] if target.quoted else re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", target.text)
    named = [_match_target(replace(target, text=part), intent, records, today) for part in parts]
    sure: list[_RecordOrId] = [match for match in named if isinstance(match, Record)]
    return sure if len(sure) == len(parts) > 1 else []


def _search_call(tool: ToolSpec, target: Target, stems: Sequence[str], tools: Sequence[ToolSpec]) -> NextCall | None:
    """Return a search for the target's words among the things that a tool acts on."""
    query = [
        english.lemma(word)
        for word in english.words(target.text)
        if english.stem(word) in stems and word not in english.STOP_WORDS
    ]
    short = " ".join(dict.fromkeys(query[:_MAX_SEARCH_WORDS]))
    for finding in tools:
        main = finding.main
        if finding.action == "search" and main is not None and finding.shares_noun(tool):
            call = check_intent(Intent(finding, {main.name: target.text if target.quoted or not short else short}))
            if not (call.missing or call.too_long):
                return NextCall(finding, call.arguments)
    return None


def _list_call(tool: ToolSpec, tools: Sequence[ToolSpec]) -> NextCall | None:
    """Return a listing of as many as possible of the things that a tool acts on."""
    for listing in tools:
        if listing.action == "list" and listing.shares_noun(tool):
            everything = {one.name: value_synonyms(one).get("all") for one in listing.parameters if one.choices}
            most = {one.name: one.schema.get("maximum") for one in listing.parameters if one.role == "limit"}
            filters = {name: value for name, value in {**everything, **most}.items() if value is not None}
            call = check_intent(Intent(listing, filters))
            if not call.missing:
                return NextCall(listing, call.arguments)
    return None


MAX_TURNS = 6
_MAX_REPLY_WORDS = 12
_NO = english.pattern(
    r"(?:no|nope|nah|never ?mind|forget it|cancel|stop|don't|do not|leave it|none|neither|nothing)(?![\w-]).*"
)
_YES = english.pattern(
    r"(?:(?:yes|yeah|yep|yup|sure|ok(?:ay)?|right|correct|exactly|please do|do it|go ahead|that one"
    r"|that's (?:it|right|the one)|please)\b[\s,.!]*)+(?:do that|it is)?[\s.!]*"
)
_ALL = english.pattern(r"(?:both|all|everything|all of them|both of them)\W*")


@dataclass(frozen=True)
class TurnProgress:
    """For each intent of a turn, in order: its next call, its question to the user, or its result.

    `withdrawn`: the user took back the open request. `cut`: the message was too long to be read completely.
    `unclaimed`: results of calls that no intent needs, because a call was edited or made by another model.
    """

    steps: list[Step] = field(default_factory=list)
    withdrawn: bool = False
    cut: bool = False
    unclaimed: tuple[ToolResult, ...] = ()


def next_reply(turns: Sequence[Turn], tools: tuple[ToolSpec, ...], today: date, *, may_call: bool) -> Reply:
    """Return the reply to the last turn: the calls that are due, or an answer."""
    turn = turns[-1]
    progress = read_dialogue(turns, tools, today) if tools and may_call else TurnProgress()
    # An unclaimed result replaces one call of its tool: that call was edited, and repeating the original could loop
    # forever.
    unclaimed = Counter(result.name for result in progress.unclaimed)
    due: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for step in progress.steps:
        if isinstance(step, NextCall) and unclaimed[step.tool.name]:
            unclaimed[step.tool.name] -= 1
        elif isinstance(step, NextCall):
            due[call_key(step.tool.name, step.arguments)] = step.tool.name, dict(step.arguments)
    return Reply(calls=tuple(due.values())) if due else Reply(_answer_text(turn, progress, tools, today))


def _answer_text(turn: Turn, progress: TurnProgress, tools: tuple[ToolSpec, ...], today: date) -> str:
    # Without tools there are no steps, but there may be results to describe.
    results = [step.result for step in progress.steps if isinstance(step, FinishedIntent)] + list(progress.unclaimed)
    results = results if progress.steps else list(turn.results.values())
    remarks = [question_text(step) for step in progress.steps if isinstance(step, Question)]
    if progress.cut:
        remarks.append("I read only the first part of your message, because it is very long.")
    if not results and not remarks and not tools:
        remarks = [document] if (document := describe_api_answer(turn.text)) else []
    if not results and not remarks:
        remarks = [fallback_answer(best_tools(tools, turn.text, today), withdrawn=progress.withdrawn)]
    described = filter(None, [describe_results(results, tools), *dict.fromkeys(remarks)])
    return "\n\n".join(described) + f"\n{NOTICE}"


def read_dialogue(turns: Sequence[Turn], tools: tuple[ToolSpec, ...], today: date) -> TurnProgress:
    """Return the progress of the last turn, given the turns before it."""
    *before, turn = turns
    state = DialogueState(tools, turn.results, _find_focus(before, tools), today)
    question = _open_question(before, tools, today)
    intents = _read_reply(turn.text, question, today) if question else None
    if intents is not None:
        return replace(_advance_intents(intents, state), withdrawn=not intents)
    names = [result.name for result in before[-1].results.values()] if before else []
    last_tool = next((tool for tool in tools if names and tool.name == names[-1]), None)
    plan = plan_message(turn.text, Context(tools, today, last_tool))
    return replace(_advance_intents(plan.intents, state), cut=plan.cut)


def _advance_intents(intents: Sequence[Intent], state: DialogueState) -> TurnProgress:
    """Advance the intents; those that read, refer back or start with "then" wait for earlier changes."""
    steps: list[Step] = []
    changing = False
    for intent in intents:
        refers = intent.target is not None and intent.target.kind == "pronoun"
        if changing and (intent.after or refers or intent.tool.action in english.READ_ACTIONS):
            break
        results = [step.result for step in reversed(steps) if isinstance(step, FinishedIntent)]
        made = next((result.records for result in results if result.ok and result.records), ())
        new = next_steps(intent, replace(state, focus=Focus(made, state.focus.listing)) if made else state)
        changing = changing or (
            intent.tool.action in english.WRITE_ACTIONS and any(isinstance(step, NextCall) for step in new)
        )
        steps += new
    return TurnProgress(steps, unclaimed=tuple(one for key, one in state.results.items() if key not in state.claimed))


def _open_question(before: Sequence[Turn], tools: tuple[ToolSpec, ...], today: date) -> Question | None:
    if not before or "?" not in before[-1].answer:
        return None
    steps = read_dialogue(before, tools, today).steps
    return next((step for step in steps if isinstance(step, Question)), None)


def _find_focus(before: Sequence[Turn], tools: Sequence[ToolSpec]) -> Focus:
    """Return the focus of the last turn with results."""
    actions = {tool.name: tool.action for tool in tools}
    for turn in reversed(before):
        answered = [result for result in turn.results.values() if result.ok]
        changed = [result for result in answered if actions.get(result.name) in ("create", "update")]
        listed = [
            result.records for result in answered if actions.get(result.name) in english.READ_ACTIONS and result.records
        ]
        if changed:
            return Focus(tuple(record for result in changed for record in result.records))
        if listed:
            return Focus(listing=listed[-1])
    return Focus()


# Replies to our questions


def _read_reply(text: str, question: Question, today: date) -> list[Intent] | None:
    """Read a reply to our question: intents, an empty list for "no", None if it has another subject."""
    plain = english.strip_courtesy_tail(text[:MAX_MESSAGE_CHARS]).strip()
    if not plain:
        return None
    if _NO.fullmatch(plain):
        return []
    hidden, literals = english.hide_literals(text[:MAX_MESSAGE_CHARS])
    bare, intent = english.strip_courtesy(hidden), question.intent
    if question.candidates and _limits(bare, question.candidates):
        return None
    chosen = _chosen_records(plain, bare, literals, question) if question.candidates else []
    if chosen:
        return [replace(intent, target=Target("ids", ids=tuple(record.id for record in chosen)), missing=(), unused=())]
    if find_cue(bare, intent.tool.any_noun).strength >= SURE:
        return None
    if intent.missing or intent.too_long:
        return _complete_intent(intent, bare, literals, today)
    if intent.unused and not question.candidates:
        return None
    if intent.target is not None and question.reason in ("missing", "none", "ambiguous", "unsure"):
        target = read_target(bare, intent.tool, literals)
        return (
            None if target.kind in ("nothing", "pronoun") else [replace(intent, target=target, missing=(), unused=())]
        )
    return None


def _complete_intent(intent: Intent, text: str, literals: english.Literals, today: date) -> list[Intent] | None:
    """Fill in the parameter that the question was about."""
    param = intent.too_long or intent.missing[0]
    if intent.tool.action == "create" and param is intent.tool.main:
        filled = fill_new(intent.tool, text, literals, today)
        return [check_intent(replace(one, arguments={**intent.arguments, **one.arguments})) for one in filled] or None
    value = parse_value(param, intent.tool, text, literals, today)
    if value is None:
        return None
    return [check_intent(replace(intent, arguments={**intent.arguments, param.name: value}, missing=(), too_long=None))]


def _chosen_records(plain: str, bare: str, literals: english.Literals, question: Question) -> Sequence[Record]:
    """Return the candidates that a reply names: by number, place, title, or all of them."""
    candidates = question.candidates
    if _YES.fullmatch(plain):
        return candidates if len(candidates) == 1 or question.reason == "confirm" else []
    if _ALL.fullmatch(plain):
        return candidates
    target = read_target(bare, question.intent.tool, literals)
    if target.kind == "place":
        return [candidates[target.place]] if -1 <= target.place < len(candidates) else []
    if target.kind == "ids":
        named = [record for record in candidates if record.id in target.ids]
        places = [number for number in target.ids if isinstance(number, int) and 0 < number <= len(candidates)]
        return named or [candidates[number - 1] for number in places]
    if target.kind != "phrase" or len(english.words(target.text)) > _MAX_REPLY_WORDS:
        return []
    match = match_records(target.text, distinctive_stems(target, question.intent.tool), candidates)
    return [match] if isinstance(match, Record) else []


# Questions and answers without a tool

_ACTION_VERBS = {"create": "add", "delete": "delete", "update": "change"}
_MAX_PURPOSE_CHARS = 120
_MAX_OFFERED_TOOLS = 5


def question_text(question: Question) -> str:
    """Return the question whose answer the intent needs."""
    intent, tool = question.intent, question.intent.tool
    verb = _ACTION_VERBS.get(tool.action or "", "use")
    if question.candidates:
        return _candidates_question(question, verb)
    if intent.too_long is not None:
        most = intent.too_long.schema.get("maxLength")
        return f"The {label(intent.too_long.name)} may have at most {most} characters. What shorter text shall I use?"
    if question.reason == "no_change":
        options = ", ".join(label(one.name) for one in tool.parameters if not one.required)
        return f"What shall I change about the {tool.noun}? I can set its {options}."
    if missing := intent.missing:
        return (
            f"I need the {' and the '.join(label(one.name) for one in missing)} to call {tool.name}. What shall it be?"
        )
    if intent.unused:
        unused = _unused_text(intent)
        return f"I did not call {tool.name}: I do not know what to do with {unused}. Can you say it in another way?"
    sought = intent.target.text if intent.target and question.reason == "none" else ""
    found = f"I found no {tool.noun} that fits “{sought}”. " if sought else ""
    return f"{found}Which {tool.noun} shall I {verb}? Tell me its title or its id."


def _unused_text(intent: Intent) -> str:
    return " and ".join(f"“{word}”" for word in intent.unused[:3])


def _candidates_question(question: Question, verb: str) -> str:
    noun, count = question.intent.tool.noun, len(question.candidates)
    lines = cut_lines([f"- {record.title or noun} (id {record.id})" for record in question.candidates])
    if question.reason == "confirm":
        opening = f"Shall I {verb} all of these {count} {plural(noun, count)}?"
    else:
        opening = f"Do you mean this {noun}?" if count == 1 else f"Which {noun} do you mean?"
        lines += [f"I found no {_unused_text(question.intent)} in it."] if question.intent.unused else []
    return "\n".join([opening, *lines])


def fallback_answer(tools: Sequence[ToolSpec], *, withdrawn: bool) -> str:
    """Return the answer to a message that needs no tool or is not understood."""
    if withdrawn:
        return "All right, I leave everything as it is."
    firsts = [(tool.name, tool.description.strip().split("\n")[0][:_MAX_PURPOSE_CHARS]) for tool in tools]
    lines = cut_lines([f"- {name}: {first}" if first else f"- {name}" for name, first in firsts], _MAX_OFFERED_TOOLS)
    offer = "I can use these tools:" if tools else "No tools are bound to me at the moment."
    return "\n".join([f"I am a small rule-based model for development without a network. {offer}", *lines])
