"""Choose the tools for a message: split it, read each clause, score the tools, fill the best one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice

from toolweave.nodes.offline_model import english
from toolweave.nodes.offline_model.clauses import LIKELY, SURE, WEAK, Clause, Cue, find_cue, split_clauses
from toolweave.nodes.offline_model.dates import find_dates
from toolweave.nodes.offline_model.extraction import Draft, count_numbers, literal_role
from toolweave.nodes.offline_model.fill_tool import (
    Intent,
    extract_filters,
    fill_afterthought,
    fill_any_tool,
    fill_change,
    fill_listing,
    fill_new,
    unexplained_words,
)
from toolweave.nodes.offline_model.titles import stated_topic, states_topic
from toolweave.nodes.offline_model.tools import ToolSpec, all_nouns

# Longer messages are cut: typed requests are shorter, and reading a pasted book would take long.
MAX_MESSAGE_CHARS = 4000
MAX_CLAUSES = 50
_OPENING_DATE_WINDOW = 80
_CONDITION = english.pattern(
    rf"(?!no\b|non|noth|but|don|never)(?:as long as|in case|{'|'.join(english.LIMITING_WORDS)})\b(?!.*\?$)"
)
_RETRACTION = english.pattern(
    r"(?<=[.!?]) +(?:(?:oh|no|wait|actually|sorry|oops|never ?mind|scratch that|just kidding)\b\W*)+(?:i mean\b.*)?$"
)
_PRONOUN_ONLY = english.pattern(
    r"(?:it|that|this|them|those|these|(?:that|this|the) one|that task)"
    r"(?: down| (?:to|on|onto|in|into|as|from|off) (?:my|the|our|a) [\w -]{1,40})*"
)
_ELLIPSIS = english.pattern(r"(?:and |or |what about |how about |same for |now |also )+(?P<rest>.+)")
_ANOTHER = english.pattern(r"(?:and |also )*(?:another|one)(?: one| more)? (?:to|for|about|called) (?P<rest>.+)")


@dataclass(frozen=True)
class Context:
    """The context of a message: the tools, the day, and the tool used in the turn before."""

    tools: tuple[ToolSpec, ...]
    today: date
    last_tool: ToolSpec | None = None


@dataclass(frozen=True)
class Plan:
    """The calls that a message requests, in order; `cut` means it was too long to be read completely."""

    intents: tuple[Intent, ...] = ()
    cut: bool = False


def plan_message(text: str, context: Context) -> Plan:
    """Return the calls that a message requests; none if it requests nothing that a tool does."""
    hidden, literals = english.hide_literals(text[:MAX_MESSAGE_CHARS])
    intents: list[Intent] = []
    unused, skipped = "", list[str]()
    clauses = list(islice(split_clauses(hidden, all_nouns(context.tools)), MAX_CLAUSES + 1))
    for clause in clauses[:MAX_CLAUSES]:
        found = _read_clause(clause, unused, intents, literals, context)
        if found is None or (found and _CONDITION.match(clause.text)):
            skipped.append(clause.text)
        if found is None:
            unused = f"{unused} {clause.text}".strip()
            continue
        if any(intent.guessed for intent in intents) and not any(intent.guessed for intent in found):
            intents = [intent for intent in intents if not intent.guessed]
        intents += found
        unused = clause.text if all(intent.guessed for intent in found) else ""
    orders = [text for text in map(literals.restore, skipped) if _orders_other(text, intents, context)]
    orders += [found.strip(" .!?") for found in _RETRACTION.findall(hidden)]
    for place, one in enumerate(intents):
        if orders and one.tool.action not in english.READ_ACTIONS:
            intents[place] = replace(one, unused=(*one.unused, *orders))
    return Plan(tuple(intents), cut=len(text) > MAX_MESSAGE_CHARS or len(clauses) > MAX_CLAUSES)


def _orders_other(text: str, intents: Sequence[Intent], context: Context) -> bool:
    """Return whether a clause orders something that none of the calls does."""
    cue = find_cue(text, all_nouns(context.tools))
    if cue.manner != "order" or cue.action in english.READ_ACTIONS:
        return bool(_CONDITION.match(text))
    other = all(
        intent.tool.action != cue.action and cue.verb not in str(intent.arguments).lower() for intent in intents
    )
    return other or bool(unexplained_words(text, intents, context.today))


def best_tools(tools: tuple[ToolSpec, ...], text: str, today: date) -> list[ToolSpec]:
    """Return the tools, those that fit a text best first."""
    hidden, literals = english.hide_literals(text[:MAX_MESSAGE_CHARS])
    cue = find_cue(english.strip_courtesy(hidden), all_nouns(tools))
    return [tool for _, tool in rank_tools(tools, cue, hidden, literals, today)]


def _read_clause(
    clause: Clause, before: str, intents: list[Intent], literals: english.Literals, context: Context
) -> list[Intent] | None:
    """Return the calls that a clause requests; None if it requests none by itself.

    An afterthought changes the last of `intents` in place.
    """
    text = _move_date_last(clause.text, context.today)
    cue = find_cue(text, all_nouns(context.tools))
    if intents and intents[-1].tool.action == "create" and (cue.strength < LIKELY or cue.action == "update"):
        more = fill_afterthought(intents[-1], text, literals, context.today)
        if more:
            intents[-1] = more
            return []
    if context.last_tool and not intents:
        continued = _read_ellipsis(text, cue, context.last_tool, literals, context)
        if continued:
            return continued
    ranked = rank_tools(context.tools, cue, text, literals, context.today)
    if not ranked or ranked[0][0] < MIN_SCORE:
        return None
    found = _fill_tool(ranked[0][1], cue, text.rstrip("?"), before, literals, context)
    if cue.manner == "statement":
        found = [intent for intent in found if intent.arguments or intent.tool.action != "update"]
    if ranked[0][1].action not in english.READ_ACTIONS:
        body = cue.body or text
        unused = (*english.OTHERS_LIST.findall(body), *unexplained_words(literals.restore(body), found, context.today))
        if _differs(cue, text, ranked[0][1], found, context.tools):
            unused = (cue.verb, *unused)
        found = [one if one.too_long else replace(one, unused=unused) for one in found]
    guessed = cue.manner == "obligation" or (cue.manner in ("statement", "deed") and cue.strength < SURE)
    return [replace(intent, after=clause.after, guessed=guessed) for intent in found] or None


def _differs(cue: Cue, text: str, tool: ToolSpec, found: Sequence[Intent], tools: tuple[ToolSpec, ...]) -> bool:
    """Return whether an order's verb, state or thing is not that of the chosen tool."""
    about = f"{tool.name} {tool.description}".replace("_", " ")
    if not cue.verb or cue.action in (*english.READ_ACTIONS, "run"):
        return False
    if tool.action == "delete" and not found[0].target and not english.pattern(rf"\b{tool.any_noun}\b").search(text):
        return bool(english.pattern(rf"\b{all_nouns(tools)}\b").search(text))
    if cue.verb in ("append", "add", "insert") and not english.pattern(r"\b(?:append|add|insert)").search(
        tool.description
    ):
        return cue.verb == "append" or bool(english.pattern(r"\b(?:overwrit|replac|writ)").search(about))
    if tool.action is not None and (tool.action != "update" or len(tool.parameters) > 1):
        return False
    states = _states(text)
    return (
        not states <= _states(about)
        if states
        else cue.action != "create" and english.stem(cue.verb) not in english.stems(about)
    )


def _states(text: str) -> set[str]:
    """Return the states that a text names or implies: "close" and "done" both name "completed"."""
    forms = {state: "|".join((verbs, *english.VALUE_SYNONYMS[state])) for state, verbs in english.VERB_VALUES.items()}
    return {state for state, form in forms.items() if english.pattern(rf"\b(?:{form})\b").search(text)}


def _move_date_last(text: str, today: date) -> str:
    """Move a date at the start of an order to its end: "tomorrow remind me to …"."""
    dates = find_dates(text[:_OPENING_DATE_WINDOW], today)
    if not dates or dates[0].start or text.endswith("?"):
        return text
    return f"{text[dates[0].end :].lstrip(' ,:')} {text[: dates[0].end]}".strip()


def _read_ellipsis(text: str, cue: Cue, tool: ToolSpec, literals: english.Literals, context: Context) -> list[Intent]:
    """Read "and the finished ones?" or "and one to buy jam" as a variation of the last request."""
    another = _ANOTHER.fullmatch(text)
    if tool.action == "create" and another and tool.main:
        return fill_new(tool, another["rest"], literals, context.today)
    more = _ELLIPSIS.fullmatch(text)
    if tool.action in english.READ_ACTIONS and more and cue.strength < LIKELY:
        rest = more["rest"].rstrip("?")
        return _fill_tool(tool, Cue("list", WEAK, rest, "question"), rest, "", literals, context)
    return []


def _fill_tool(
    tool: ToolSpec, cue: Cue, text: str, before: str, literals: english.Literals, context: Context
) -> list[Intent]:
    """Fill the chosen tool; `before` is the preceding text of the message, which requested no tool."""
    subject_text = cue.body.strip(" .,;:!?")
    if before and tool.action != "update" and (not subject_text or _PRONOUN_ONLY.fullmatch(subject_text)):
        text = before
        cue = replace(cue, body=before if tool.action == "create" else stated_topic(before) or before)
    if tool.key is not None and tool.action in ("update", "delete", "get", "run"):
        found = fill_change(tool, cue, text, literals, context.today)
        return [_resolve_antecedent(intent, before, cue, literals, context) for intent in found]
    main = tool.main
    if tool.action == "create" and main is not None and main.role in ("title", "text", "description", "other"):
        return fill_new(tool, cue.body, literals, context.today)
    listing, finding = _list_and_search(tool, context.tools) if tool.action in ("list", "search") else (None, None)
    if listing or finding:
        reading = fill_listing(listing, finding, text, cue.body.rstrip("?"), literals, context.today)
        return [reading] if reading else []
    intent = fill_any_tool(tool, text, literals, context.today)
    return [fill_any_tool(tool, f"{before} {text}", literals, context.today) if intent.missing and before else intent]


def _resolve_antecedent(intent: Intent, before: str, cue: Cue, literals: english.Literals, context: Context) -> Intent:
    """Resolve "that task" to the subject of the clause before it."""
    if not before or intent.target is None or intent.target.kind != "pronoun":
        return intent
    stated = find_cue(before, all_nouns(context.tools))
    subject = stated_topic(before) or (stated.body if stated.manner == "deed" else before)
    resolved = fill_change(intent.tool, replace(cue, body=subject, manner="none"), subject, literals, context.today)
    target = resolved[0].target if resolved else None
    return replace(intent, target=target) if target and target.kind in ("phrase", "ids") else intent


def _list_and_search(tool: ToolSpec, tools: Sequence[ToolSpec]) -> tuple[ToolSpec | None, ToolSpec | None]:
    """Return the tools that list and that search the same things."""
    related = [tool, *(other for other in tools if other.shares_noun(tool) and other is not tool)]
    listing = next((one for one in related if one.action == "list"), None)
    finding = next((one for one in related if one.action == "search" and one.main is not None), None)
    return listing, finding


MIN_SCORE = 2.0
"""A tool with a lower score is not called: the message does not request it."""
_OWN = english.pattern(
    r"\b(?:i|i've|i'd|my|we|our)\b|^(?:(?:is there |are there )?any(?:thing)?|where(?:'?s| is| are))\b"
)
_HAVING = english.pattern(
    r"(?:what|which|all) (?:i|we)(?:'ve| have)(?: got)?(?! to\b)|do you have"
    r"|(?:do|did|have|had) (?:i|we) (?:already |ever )?(?:have|got|get|write|note|put|add|noted|written|added)(?! to\b)"
    r"|(?:when|where)(?:'s| is| are| was) my|when (?:do|should|must|can) (?:i|we)\b"
)
_IN_MY_LIST = english.pattern(rf"\b(?:my|the|this|our) (?:[\w-]+ )?{english.CONTAINER}\b")


def rank_tools(
    tools: Sequence[ToolSpec], cue: Cue, text: str, literals: english.Literals, today: date
) -> list[tuple[float, ToolSpec]]:
    """Return the tools with their scores, best first; of equal ones, those named by the same verb."""
    text = text[: english.MAX_CLAUSE_CHARS]
    scored = [
        (
            _action_score(tool, cue)
            + _words_score(tool, cue, text)
            + _evidence_score(tool, text, literals)
            + _aim_score(tool, cue, Draft(tool, text, literals, today)),
            tool,
        )
        for tool in tools
    ]
    return sorted(scored, key=lambda pair: (-pair[0], bool(cue.verb) and pair[1].verb != cue.verb))


def _action_score(tool: ToolSpec, cue: Cue) -> float:
    """Score the clause's action against the tool's; different kinds of change never match."""
    if cue.action is None or tool.action is None:
        return 0.0
    if cue.action == tool.action:
        return 3.0 if cue.strength >= LIKELY else 1.0
    if tool.action in (*english.STRONG_ACTIONS.get(cue.verb, ()), *english.WEAK_ACTIONS.get(cue.verb, ())):
        return 2.0 if cue.strength >= SURE else 1.0
    if {cue.action, tool.action} <= english.READ_ACTIONS:
        return 1.5 if cue.strength >= LIKELY else 1.0
    return -3.0 if cue.strength >= LIKELY else -1.0


def _words_score(tool: ToolSpec, cue: Cue, text: str) -> float:
    """Score the words that the clause shares with the tool's name, description and parameters."""
    forms = (rf"(?<![\w-]){english.any_of_nouns(english.noun_synonyms(noun))}(?![\w-])" for noun in tool.nouns)
    matched = [form for form in forms if english.pattern(form).search(text)]
    known = {
        *english.stems(tool.description[:400]),
        *(english.stem(word) for one in tool.parameters for word in one.words),
    }
    score = min(1.2, 0.4 * len(known & set(english.stems(text))))
    if matched:
        score += 1.5 + len(matched) / len(tool.nouns)
    elif cue.action == tool.action or (cue.action in english.READ_ACTIONS and tool.action in english.READ_ACTIONS):
        score += float(bool(_IN_MY_LIST.search(text)))
    same = [english.stem(opening[0]) for one in (text, tool.description[:60]) if (opening := english.words(one))]
    return score + 1.5 if len(same) == 2 and same[0] == same[1] else score


def _evidence_score(tool: ToolSpec, text: str, literals: english.Literals) -> float:
    """Score the addresses and numbers in the clause that the tool's parameters accept."""
    roles = {parameter.role for parameter in tool.parameters}
    found = literals.in_text(text, "url", "email", "path")
    score = sum(2.0 if literal_role(literal.kind, literal.value) in roles else -0.5 for _, literal in found)
    numbers = sum(one.required and one.role == "number" for one in tool.parameters)
    if numbers:
        score += 1.0 if count_numbers(text) >= numbers else -1.5
    return max(-1.5, min(3.0, score))


def _aim_score(tool: ToolSpec, cue: Cue, draft: Draft) -> float:
    """Score the signs that a vague request is for this tool: a filter, the user's own topic, a new value."""
    text = draft.text
    if cue.action in english.READ_ACTIONS and tool.action in ("list", "search"):
        filters = extract_filters(draft)
        roles = {one.role for one in tool.parameters if one.name in filters} - {"url", "email", "path", "query", "id"}
        filtered = 0.0 if not roles else 0.6 if roles == {"date"} else 1.0
        return filtered + float(bool(_HAVING.search(text)) or (states_topic(text) and bool(_OWN.search(text))))
    vague = cue.action in english.WRITE_ACTIONS and cue.manner == "order" and cue.strength < SURE
    if vague and tool.action in ("create", "update") and tool.action in english.WEAK_ACTIONS.get(cue.verb, ()):
        return float(bool(extract_filters(draft))) + (0.5 if tool.action == "update" else 0.0)
    return 0.0
