"""Take the new values of a change: "rename X to Y", "change the title of X to Y", "finish X"."""

from typing import Any

from toolweave.nodes.offline_model.filling.choices import value_meaning, value_of_verb
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.named_texts import parameter_words
from toolweave.nodes.offline_model.language.cues import Cue
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import lemma
from toolweave.nodes.offline_model.tools.parameters import Parameter

_CHANGE = (
    r"(?:change|set|update|edit|correct|fix|modify|replace|make|adjust|amend|revise|rewrite|alter|put|give|add|attach)"
)
_TO = r"(?: (?:to|as|into|with|is|be|should be|should read|to be|reads?)(?: now)?(?::)? |\s*[:=]\s*)"
_VALUE = r"(?P<value>.+)$"
# `{P}` stands for the words that name the parameter, `target` is the thing, `value` what the parameter becomes.
_FORMS = (
    (
        rf"^{_CHANGE} (?:the |its |a |an )?(?:new )?(?:{{P}})(?: (?:of|for|on|in|to|from)(?: the)?(?P<target> .+?))?"
        rf"{_TO}{_VALUE}"
    ),
    rf"^{_CHANGE}(?P<target> .+?)(?:'s?)? (?:{{P}}){_TO}{_VALUE}",
    rf"^{_CHANGE} (?:the |a |its )?(?:{{P}})(?:\s*[:=])? (?P<value>.+?) (?:to|for|on)(?P<target> .+)$",
    rf"^{_CHANGE} (?P<value>.+?) as (?:the |a |its )?(?:new )?(?:{{P}}) (?:of|for|to)(?P<target> .+)$",
    (
        r"^(?:the )?(?:new )?(?:{P}) (?:of|for)(?P<target> .+?) "
        rf"(?:should be|should read|must be|is now|to|is)(?::)? {_VALUE}"
    ),
    rf"^(?P<target>.+?)[,;:]? (?:the )?new (?:{{P}}) {_VALUE}",
    (
        r"^(?P<target>.+?)[,;:]? (?:and |so |with )?(?:that )?(?:change |set |have |make )?(?:the |its |a )?(?:new )?"
        rf"(?:{{P}}){_TO}{_VALUE}"
    ),
)
_DONE_AS = pattern(r" as (?:already |now )?(?P<deed>[a-z]+)\W*$")
_RENAMING = pattern(rf"(?:rename|retitle|call)(?P<target> .+?) (?:to|as|into) {_VALUE}")
_REPLACING = pattern(rf"{_CHANGE}(?P<target> {HIDDEN}) (?:to|into|with|by) (?P<value>{HIDDEN})$")


def take_new_texts(draft: Draft) -> None:
    """Take new titles and descriptions; the thing they are for is left in the text."""
    texts = draft.open_texts("title", "description", "text", "other")
    title = next((one for one in texts if one.role == "title"), None)
    renaming = _RENAMING.match(draft.rest.text) or _REPLACING.match(draft.rest.text)
    if title and renaming:
        draft.fill(title, renaming["value"])
        draft.rest.text = renaming["target"].strip()
        return
    for parameter in texts:
        for form in _FORMS:
            match = pattern(form.replace("{P}", parameter_words(parameter))).match(draft.rest.text)
            if match and _is_value(parameter, match["value"]):
                draft.fill(parameter, match["value"])
                draft.rest.text = (match["target"] or "it").strip()
                break


def _is_value(parameter: Parameter, value: str) -> bool:
    said = value.strip(" ,;:.!?-–—").lower()
    return bool(said) and not (parameter.role == "title" and said in ("it", "that"))


def take_done(draft: Draft, cue: Cue) -> None:
    """Take "mark it as paid" as completing it: whatever was done to the thing, it is done."""
    match = _DONE_AS.search(draft.rest.text)
    if cue.verb != "mark" or draft.arguments or not match or lemma(match["deed"]) == match["deed"].lower():
        return
    for parameter in draft.tool.parameters:
        completed = value_meaning(parameter, "completed")
        if completed is not None:
            draft.arguments[parameter.name] = completed
            draft.rest.cut(match.start(), match.end())
            return


def take_implied_values(draft: Draft, cue: Cue, text: str) -> None:
    """Take the value that the verb itself means: finishing sets the state to completed, and so does a deed reported."""
    stated = bool(draft.arguments)
    if stated and cue.verb in ("set", "change", "update", "edit", "make", "move"):
        return
    for parameter in draft.tool.parameters:
        if parameter.name in draft.arguments or not (parameter.choices or parameter.kind == "boolean"):
            continue
        value: Any = value_of_verb(parameter, text)
        if value is None and cue.manner == "deed" and not draft.arguments:
            value = value_meaning(parameter, "completed")
        if value is not None:
            draft.arguments[parameter.name] = value
