"""Find tags and labels: hashtags, "tagged work", "with the tags travel and work", "work-tagged"."""

import re

from toolweave.nodes.offline_model.filling.draft import Remainder
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern

_NO_LABEL = r"(?!(?:and|to|for|with|on|in|at|by|due|from|of|the|a|an|my|is|are|not)\b)"
_ITEM = rf"(?:{HIDDEN}|#?{_NO_LABEL}[\w][\w-]*)"
_ITEMS = rf"(?P<items>{_ITEM}(?:(?:\s*,\s*(?:and )?| and | & ){_ITEM}(?!['’\w]| (?:to|the|a|my)\b))*)"
_HASHTAG = re.compile(r"(?:^|(?<=[\s,(]))#(?P<items>[^\W\d][\w-]{0,60})")
_LABEL = r"(?:tags?|labels?|category|categories|hashtags?)"
_LABELLED = r"(?:tagged|labell?ed)"
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*")

_FORMS = (
    rf"^(?:tag|label)(?P<kept> .+?) (?:with|as) (?:{_LABEL}:? )?{_ITEMS}$",
    rf"^(?:tag|label)(?P<kept> (?:it|this|that)) {_ITEMS}$",
    rf"\b(?P<items>[a-z]\w*)(?:-{_LABELLED}\b| {_LABELLED}(?= {{N}}\b))",
    rf"\b(?:tagged|labell?ed|categori[sz]ed)(?: (?:with|as|under))?(?: {_LABEL})?:?\s+{_ITEMS}",
    (
        rf"\b(?:with |having |under |in |add |and )?(?:the |a |an )?(?:new )?{_LABEL}"
        rf"(?: (?:of|named|called|is|are|to))?\s*[:=]?\s+(?!{{N}}\b){_ITEMS}"
    ),
    rf"\b(?:in|under) (?:the )?{_ITEMS} (?:category|tag|label)\b",
)


def take_labels(rest: Remainder, noun: str) -> list[str]:
    """Take the tags that a text names, in order."""
    found = [match["items"] for match in iter(lambda: rest.take(_HASHTAG), None)]
    for form in _FORMS:
        match = pattern(form.replace("{N}", noun)).search(rest.text)
        if match:
            kept = match.groupdict().get("kept") or ""
            rest.text = f"{rest.text[: match.start()].rstrip()}{kept} {rest.text[match.end() :].lstrip()}".strip()
            found += [rest.literals.restore(item).lstrip("#") for item in _SEPARATOR.split(match["items"])]
            break
    return list(dict.fromkeys(label for label in found if label))
