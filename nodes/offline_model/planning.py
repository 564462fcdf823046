"""Turn one user message into intents: split it, read each clause, choose the tool and fill it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice

from toolweave.nodes.offline_model.filling.choose_tool import ENOUGH, rank_tools
from toolweave.nodes.offline_model.filling.fill_change import fill_change
from toolweave.nodes.offline_model.filling.fill_new import fill_more, fill_new
from toolweave.nodes.offline_model.filling.fill_other import fill_other
from toolweave.nodes.offline_model.filling.fill_reading import fill_reading
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.topic import topic_stated
from toolweave.nodes.offline_model.language.clauses import Clause, split_clauses
from toolweave.nodes.offline_model.language.cues import Cue, find_cue
from toolweave.nodes.offline_model.language.dates import find_dates
from toolweave.nodes.offline_model.language.idioms import LIKELY, SURE, WEAK
from toolweave.nodes.offline_model.language.literals import Literals, hide_literals
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.spelling import correct_slips
from toolweave.nodes.offline_model.language.vocabulary import READING
from toolweave.nodes.offline_model.tools.tool_nouns import all_nouns, surface_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

# What is read of one message: enough for any request a person types, and little enough for a pasted book.
TEXT_WINDOW = 4000
MAX_CLAUSES = 50

_OPENING_DATE_WINDOW = 80
_PRONOUN_ONLY = pattern(
    r"(?:it|that|this|them|those|these|(?:that|this|the) one|that task)"
    r"(?: down| (?:to|on|onto|in|into|as|from|off) (?:my|the|our|a) [\w -]{1,40})*"
)
_ELLIPSIS = pattern(r"(?:and |or |what about |how about |same for |now |also )+(?P<rest>.+)")
_ANOTHER = pattern(
    r"(?:and |also |now )*(?:one|another|another one|one more)(?: more)? (?:to|for|about|called) (?P<rest>.+)"
)


@dataclass(frozen=True)
class Reader:
    """What it takes to read a message: the tools, the day, and the tool used in the turn before."""

    tools: tuple[ToolSpec, ...]
    today: date
    last_tool: ToolSpec | None = None

    @property
    def noun(self) -> str:
        """Give the alternative of the words for what the tools act on."""
        return all_nouns(self.tools)


@dataclass(frozen=True)
class Plan:
    """What a message asks for, in its order; `cut` says that it was too long to be read whole."""

    intents: tuple[Intent, ...] = ()
    cut: bool = False


def plan_message(text: str, reader: Reader) -> Plan:
    """Read what a message asks for; nothing when it asks for nothing that a tool does."""
    hidden, literals = hide_literals(text[:TEXT_WINDOW])
    hidden = correct_slips(hidden, surface_nouns(reader.tools))
    intents: list[Intent] = []
    unused = ""
    clauses = list(islice(split_clauses(hidden, reader.noun), MAX_CLAUSES + 1))
    for clause in clauses[:MAX_CLAUSES]:
        found = _read_clause(clause, unused, intents, literals, reader)
        if found is None:
            unused = f"{unused} {clause.text}".strip()
            continue
        if any(intent.guessed for intent in intents) and not any(intent.guessed for intent in found):
            intents = [intent for intent in intents if not intent.guessed]
        for intent in found:
            joined = _joined(intents[-1], intent) if intents else None
            if joined:
                intents[-1] = joined
            elif not _says_less(intent, intents):
                intents.append(intent)
        unused = clause.text if all(intent.guessed for intent in found) else ""
    return Plan(tuple(intents), cut=len(text) > TEXT_WINDOW or len(clauses) > MAX_CLAUSES)


def _joined(intent: Intent, more: Intent) -> Intent | None:
    """Join a change of "it" to the change before it: "change task 4 to high priority and mark it as active"."""
    refers = more.target is not None and more.target.kind == "pronoun"
    same = intent.tool is more.tool and intent.tool.action == "update" and intent.target is not None
    if not (refers and same) or more.after or not more.arguments or set(intent.arguments) & set(more.arguments):
        return None
    return replace(
        intent, arguments={**intent.arguments, **more.arguments}, added=(*intent.added, *more.added), missing=()
    )


def _says_less(intent: Intent, others: Sequence[Intent]) -> bool:
    """Tell whether a reading intent only repeats another one without its filters: "… Please show me."""
    return intent.tool.action in READING and not intent.arguments and any(one.tool is intent.tool for one in others)


def _read_clause(
    clause: Clause, before: str, intents: list[Intent], literals: Literals, reader: Reader
) -> list[Intent] | None:
    """Read one clause; None when it asks for nothing by itself. An afterthought changes the last intent in place."""
    text = _date_last(clause.text, reader.today)
    cue = find_cue(text, reader.noun)
    if intents and intents[-1].tool.action == "create" and (cue.strength < LIKELY or cue.action == "update"):
        more = fill_more(intents[-1], text, literals, reader.today)
        if more:
            intents[-1] = more
            return []
    if reader.last_tool and not intents:
        continued = _read_ellipsis(text, cue, reader.last_tool, literals, reader)
        if continued:
            return continued
    ranked = rank_tools(reader.tools, cue, text, literals, reader.today)
    if not ranked or ranked[0][0] < ENOUGH:
        return None
    found = _fill(ranked[0][1], cue, text.rstrip("?"), before, literals, reader)
    if cue.manner == "statement":
        found = [intent for intent in found if intent.arguments or intent.tool.action != "update"]
    guessed = cue.manner == "obligation" or (cue.manner in ("statement", "deed") and cue.strength < SURE)
    return [replace(intent, after=clause.after, guessed=guessed) for intent in found] or None


def _date_last(text: str, today: date) -> str:
    """Move a date that opens an order behind it: "tomorrow remind me to …"."""
    dates = find_dates(text[:_OPENING_DATE_WINDOW], today)
    if not dates or dates[0].start or text.endswith("?"):
        return text
    return f"{text[dates[0].end :].lstrip(' ,:')} {text[: dates[0].end]}".strip()


def _read_ellipsis(text: str, cue: Cue, tool: ToolSpec, literals: Literals, reader: Reader) -> list[Intent]:
    """Read "and the finished ones?" or "and one to buy jam" as asking once more for what was asked before."""
    another = _ANOTHER.fullmatch(text)
    if tool.action == "create" and another and tool.main:
        return fill_new(tool, another["rest"], literals, reader.today)
    more = _ELLIPSIS.fullmatch(text)
    if tool.action in READING and more and cue.strength < LIKELY:
        rest = more["rest"].rstrip("?")
        return _fill(tool, Cue("list", WEAK, rest, "question"), rest, "", literals, reader)
    return []


def _fill(tool: ToolSpec, cue: Cue, text: str, before: str, literals: Literals, reader: Reader) -> list[Intent]:
    """Fill the chosen tool; `before` is what the message said before this clause and asked for nothing."""
    spoken_of = cue.body.strip(" .,;:!?")
    if before and tool.action != "update" and (not spoken_of or _PRONOUN_ONLY.fullmatch(spoken_of)):
        text = before
        cue = replace(cue, body=before if tool.action == "create" else topic_stated(before) or before)
    if tool.key is not None and tool.action in ("update", "delete", "get", "run"):
        found = fill_change(tool, cue, text, literals, reader.today)
        return [_with_antecedent(intent, before, cue, literals, reader) for intent in found]
    main = tool.main
    if tool.action == "create" and main is not None and main.role in ("title", "text", "description", "other"):
        return fill_new(tool, cue.body, literals, reader.today)
    if tool.action in ("list", "search"):
        listing, finding = _pair(tool, reader.tools)
        reading = fill_reading(listing, finding, text, cue.body.rstrip("?"), literals, reader.today)
        return [reading] if reading else []
    intent = fill_other(tool, text, literals, reader.today)
    return [fill_other(tool, f"{before} {text}", literals, reader.today) if intent.missing and before else intent]


def _with_antecedent(intent: Intent, before: str, cue: Cue, literals: Literals, reader: Reader) -> Intent:
    """Let "that task" stand for what the clause before it spoke of."""
    if not before or intent.target is None or intent.target.kind != "pronoun":
        return intent
    stated = find_cue(before, reader.noun)
    subject = topic_stated(before) or (stated.body if stated.manner == "deed" else before)
    spoken = fill_change(intent.tool, replace(cue, body=subject, manner="none"), subject, literals, reader.today)
    target = spoken[0].target if spoken else None
    return replace(intent, target=target) if target and target.kind in ("phrase", "ids") else intent


def _pair(tool: ToolSpec, tools: Sequence[ToolSpec]) -> tuple[ToolSpec | None, ToolSpec | None]:
    """Give the listing and the finding tool of the same things."""
    related = [tool, *(other for other in tools if other.shares_noun(tool) and other is not tool)]
    listing = next((one for one in related if one.action == "list"), None)
    finding = next((one for one in related if one.action == "search" and one.main is not None), None)
    return listing, finding
