"""List the idioms by which people ask for something without naming it by its verb, and report what they have done.

In a form `{N}` stands for the nouns of the bound tools, `{L}` for those and the places where things are kept; the group
`body` is what the idiom is about, `tail` is added to it.
"""

from dataclasses import dataclass
from typing import Literal

from toolweave.nodes.offline_model.language.vocabulary import Action
from toolweave.nodes.offline_model.language.words import IRREGULAR

Manner = Literal["order", "question", "statement", "deed", "obligation", "noun", "none"]


# How much a clause says by itself: a weak one counts only beside the noun of a tool.
WEAK, LIKELY, SURE = 1, 2, 3


@dataclass(frozen=True)
class Idiom:
    """One way to say something."""

    action: Action
    form: str
    manner: Manner = "order"
    strength: int = SURE


OBLIGATION = (
    r"(?:(?:i|we)(?:'ve|'ll|'m| have| will| am)?(?: really| also| probably| still| just| now| then)* (?:need to|have to"
    r"|has to|got to|must(?: not)?|should(?: not)?|ought to|want to|supposed to|going to|gonna|gotta|plan to)"
    r"|gotta|gonna|need to|have to|must)(?: really| also| probably| still)*(?! you\b)"
)

# Past forms that tell a state of mind, not a deed that could tick something off.
_NO_DEED = (
    r"(?!(?:need|want|think|forg|chang|decid|wonder|lik|lov|hop|tri|believ|mean|got|heard|saw|told|said|knew|tir|excit"
    r"|interest|worri|bor|annoy|relat|suppos|us|left|had|lost|felt|been|set|red|bed|inde|hundr)\w*)"
)
_IRREGULAR_DEEDS = "|".join(
    sorted(word for word in IRREGULAR if word not in ("did", "got", "left", "put", "set", "found", "told"))
)
_DEED = rf"{_NO_DEED}(?:[a-z]{{2,20}}ed|{_IRREGULAR_DEEDS})\b"
_DONE = r"(?:done|finished|complete|completed)"
_ARTICLE = r"(?:a|an|another|new)\b"
_MINE = r"(?:my|the|this|our)"
_LATELY = r"(?: (?:already|just|finally|now))*"
_IS = r"(?:is|are|has been|have been|was|were|got)(?: (?:now|already|finally|all))*"

CREATING = (
    Idiom("create", r"(?:don't|do not|dont|never|not)(?: let me| ever)? forget (?:to |about |that )?(?P<body>.+)"),
    Idiom("create", r"(?:i|we) (?:must|should|can)(?: not|n't|not) forget (?:to |about |that )?(?P<body>.+)"),
    Idiom("create", r"(?:i|we) (?:don't|do not|dont) want to forget (?:to |about )?(?P<body>.+)"),
    Idiom(
        "create",
        r"(?:set (?:me )?)?(?:a )?remind(?:er)?(?: me| us)(?! (?:what|which|where|how|who|again))(?P<body> .+)",
    ),
    Idiom("create", r"(?:i |we )?(?:\w+ ){0,4}?remember (?:to |that )(?P<body>.+)"),
    Idiom("create", r"(?:note|jot|write|take|put)(?: (?:it|this|that))? down(?: as (?:a |an )?{L})?(?P<body>.*)"),
    Idiom(
        "create",
        r"(?:make|create|open|start|set up|set|put together|draft|generate|assign|book)(?: me| us)? "
        r"(?P<body>(?:a|an|another|new|some|two|three|the following)\b.*\b{N}\b.*)",
    ),
    Idiom(
        "create",
        r"(?:make|take)(?: me)? (?:a )?(?:mental |quick )?note(?: (?:to self|to|of|about|that))?(?P<body>[\s:].+)",
    ),
    Idiom("create", r"note to (?:self|me)[\s:,-]+(?P<body>.+)"),
    Idiom("create", r"(?:add|put|save|enter|log|record|write) (?P<body>.+?) as (?:a |an |new |my )*{N}\b(?P<tail>.*)"),
    Idiom("create", rf"(?:can|could|may) (?:i|we) (?:get|have|add) (?P<body>{_ARTICLE}.*\b{{N}}\b.*)"),
)

KEEPING = (
    Idiom(
        "create",
        r"(?:add|put|throw|stick|place|get|write|pop|chuck|toss|include|enter|log|save) "
        r"(?P<body>(?!rid\b|a {N}|(?:the|a) following).+?) (?:down )?(?:on|onto|in|into|to|as) (?:my|the|our|a) "
        r"(?:[\w-]+ ){0,2}(?:{L})\b(?P<tail>(?!['’]s| (?:about|with id|called|number)).*)",
    ),
)

NAMING = (
    Idiom(
        "create",
        r"(?:my |the |a )?{N}(?P<tail> (?:for|due|by|on) [^:]{1,40})?\s*(?::|[-–—] )\s*(?P<body>[^?]+)",
        "noun",
    ),
    Idiom(
        "create",
        r"(?:todo|to-do|task|reminder) (?!(?:list|app|is|are|about|for|with|due|called|named|titled|number|that|which"
        r"|of|on|in|to|from|has|was|should|must|can|needs|done|finished|please|and)\b)(?P<body>[a-z]+ [^?\d#]+)",
        "noun",
        LIKELY,
    ),
    Idiom(
        "create",
        r"(?:i |we |i'd |we'd )?(?:would |'d )?(?:need|want|require|like|love|appreciate)(?: to have)? "
        rf"(?P<body>{_ARTICLE}(?: [\w-]+){{0,3}}? {{N}}(?: (?:to|for|about|called|named)\b|:).+)",
        "noun",
    ),
    Idiom(
        "create",
        r"(?:there's|there is|here's|here is|i have|i've got|i got) (?P<body>(?:a|an|another|one more)\b"
        r"(?: [\w-]+){0,2}? {N})(?: (?:i|we|you|that)\b[^:]{1,40})?\s*(?::| to (?=\w))(?P<tail>.+)",
        "noun",
    ),
    Idiom(
        "create",
        r"(?:a |an |the )?(?:new|another|one more|additional)(?: [\w-]+){0,2}? (?:{N}|one)\b(?P<body>.*)",
        "noun",
    ),
    Idiom("create", r"(?:a |an )(?:[\w-]+ ){0,2}?{N} (?:to|for|about|called|named)\b(?P<body>.+)", "noun", LIKELY),
)

CHANGING = (
    Idiom(
        "update",
        r"(?P<body>(?:add|attach|give|put|set)(?: a| an| the| another)?(?: new)? "
        r"(?:tags?|labels?|description|due date|deadline|priority)\b(?! {N}).* (?:to|on|for|of) .+)",
    ),
    Idiom(
        "update",
        r"(?P<body>(?:add|attach)(?: a| an| the| another)?(?: new)? (?:notes?|comments?|details?)\b(?! {N}).* "
        r"(?:to|on|for) (?:(?:the |my )?.*{N}\b|#?\d|it\b|that\b).*)",
    ),
    Idiom(
        "update", r"(?P<body>make (?:it|that|this|them|the|my|{N} #?\d|so that|#\d|[\ue000-\uf8ff]).*)", strength=LIKELY
    ),
    Idiom("update", r"(?P<body>set (?!up\b|a\b|an\b|me\b|alarm|reminder).+ (?:to|as|for|due|by) .+)", strength=LIKELY),
    Idiom("update", r"(?P<body>(?:cross|tick|check|mark) (?!if|whether|for)(?:.+ off\b|off ).*)"),
    Idiom("update", r"(?P<body>give (?!me\b|us\b)\S.* (?:a|an) .+)"),
    Idiom("update", r"(?P<body>put off .+)"),
)

DELETING = (
    Idiom("delete", rf"(?:take|get|have|move) (?P<body>.+?) (?:off|out)(?: of)? {_MINE}\b.*"),
    Idiom("delete", rf"(?:strike|scratch|clear|pull) (?P<body>.+?) (?:off|from)(?: of)? {_MINE}\b.*"),
    Idiom("delete", r"(?:get rid of|throw (?:away|out)|throw|do away with|dispose of) (?P<body>.+)"),
    Idiom("delete", r"forget (?:about )?(?!it$|that$|this$)(?P<body>.+)"),
    Idiom(
        "delete",
        r"(?:i|we) (?:don't|do not|dont) (?:need|want)(?: to (?:see|keep|do|have))? (?P<body>.+?) "
        r"(?:any ?more|any longer|now)\b.*",
        "statement",
    ),
    Idiom(
        "delete",
        r"(?:i|we) no longer (?:need|want|care about)(?: to (?:see|keep|do|have))? (?P<body>.+)",
        "statement",
    ),
    Idiom("delete", r"(?:i|we) (?:don't|do not|dont) (?:need|want) (?P<body>.*\b{N}\b.*)", "statement"),
    Idiom(
        "delete",
        r"(?P<body>.+?) (?:can go|can be (?:deleted|removed|dropped)"
        r"|(?:is|are) (?:no longer|not) (?:needed|relevant|necessary))\b.*",
        "statement",
        LIKELY,
    ),
)

READING = (
    Idiom("list", r"remind me (?P<body>(?:what|which|how|again).+)", "question", LIKELY),
    Idiom("search", r"(?:do|run|perform|make) (?:a |another )?(?:quick )?search(?: on| for| about| of)?(?P<body> .+)"),
    Idiom("search", r"(?:look|looking|hunt|hunting|dig)(?: (?:for|up|through|in|down|around))+(?P<body> .+)"),
    Idiom("search", r"(?:i'm|i am|we're) (?:looking|searching) for (?P<body>.+)"),
    Idiom("search", r"(?:can you )?(?:check|see)(?: to see)? (?:if|whether) (?P<body>.+)", "question"),
    Idiom(
        "list",
        r"(?:let me|i(?:'d| would)? (?:like|want|need) to) (?:see|view|look at|check)(?P<body> .+)",
        strength=LIKELY,
    ),
    Idiom("list", r"(?:run|walk|take|talk) (?:me|us) through(?P<body> .+)", strength=LIKELY),
    Idiom(
        "list",
        r"(?:give me|pull up|bring up|take a look at|have a look at|i want|look at|go (?:over|through))(?P<body> .+)",
        strength=LIKELY,
    ),
)

# The narrower ones come before the wider ones that would take them, too.
ORDERS = (*CREATING, *CHANGING, *KEEPING, *NAMING, *DELETING, *READING)

REPORTS = (
    Idiom(
        "update",
        rf"(?:i|we)(?:'ve|'m|'re| have| am| are)?{_LATELY} "
        r"(?:finished|completed|done|did|dealt with|taken care of|am done)(?: (?:with|up))? (?P<body>.+)",
        "deed",
    ),
    Idiom("update", r"(?:all )?(?:done|finished|completed)(?: with)? (?P<body>.+)", "deed"),
    Idiom(
        "update",
        rf"(?P<body>(?:the |my )?{{N}} #?\d+\s*[:,-]?\s*(?:is |was )?(?:now |already )?{_DONE})",
        "deed",
    ),
    Idiom("update", rf"(?P<body>(?:it|that|this|that one)(?:'s| is)(?: now| already| all)* {_DONE})", "deed"),
    Idiom("update", rf"(?P<body>{_DEED}(?: [^\s,]+){{1,6}})", "deed", LIKELY),
    Idiom(
        "update",
        r"(?P<body>.*\b{N} #?\d+\b(?:'s)?(?: [\w-]+){0,3}? (?:should|must|is|isn't|needs|has|was|wasn't|can|are)\b.*)",
        "statement",
    ),
    Idiom(
        "update",
        r"(?P<body>(?:the|my|our) .+? (?:has |have |was |were |is |are |been |got )*(?:moved|postponed|rescheduled"
        r"|shifted|delayed|pushed|brought forward) (?:back )?(?:to|until|on|for|by) .+)",
        "statement",
    ),
    Idiom(
        "update",
        r"(?P<body>.+? (?:is|are|has been|have been|was|were|got|isn't|aren't|wasn't|is not|are not)"
        r"(?: (?:now|already|finally|all|not))* "
        r"(?:done|finished|complete|completed|incomplete|due|overdue|urgent|important)\b.*)",
        "statement",
        LIKELY,
    ),
    Idiom(
        "update",
        rf"(?:i|we)(?:'ve| have)?(?: (?:already|just|finally))* (?P<body>{_DEED}(?: [^\s,]+){{1,7}})",
        "deed",
        LIKELY,
    ),
    Idiom("update", rf"(?P<body>(?:the|my|our) .+? {_IS} {_DEED}.*)", "deed", LIKELY),
)
