"""Read a reply to our question: the thing it chooses, the value it gives, or that the request is withdrawn."""

from dataclasses import replace
from datetime import date

from toolweave.nodes.offline_model.filling.completeness import checked
from toolweave.nodes.offline_model.filling.fill_new import fill_new
from toolweave.nodes.offline_model.filling.intents import Intent
from toolweave.nodes.offline_model.filling.reply_value import read_value
from toolweave.nodes.offline_model.filling.targets import Target, read_target
from toolweave.nodes.offline_model.language.cues import find_cue
from toolweave.nodes.offline_model.language.idioms import SURE
from toolweave.nodes.offline_model.language.literals import Literals, hide_literals
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.politeness import without_courteous_tail, without_courtesy
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.planning import TEXT_WINDOW
from toolweave.nodes.offline_model.resolution import Question, with_target
from toolweave.nodes.offline_model.tools.records import Record, match_records
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns

_NO = pattern(
    r"(?:no|nope|nah|never ?mind|forget it|cancel|stop|don't|do not|leave it|none|neither|nothing)(?![\w-]).*"
)
_YES = pattern(
    r"(?:(?:yes|yeah|yep|yup|sure|ok(?:ay)?|right|correct|exactly|please do|do it|go ahead|that one"
    r"|that's (?:it|right|the one)|please)\b[\s,.!]*)+(?:do that|it is)?[\s.!]*"
)
_ALL = pattern(r"(?:both|all|everything|all of them|both of them)\W*")
_LONGEST_REPLY = 12


def read_reply(text: str, question: Question, today: date) -> list[Intent] | None:
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
    if find_cue(without_courtesy(hidden), noun).strength >= SURE:
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
