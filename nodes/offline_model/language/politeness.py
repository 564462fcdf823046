"""Strip greetings and courtesies that surround a request without being part of it."""

from toolweave.nodes.offline_model.language.patterns import pattern

_GREETING = r"hi(?: there)?|hello(?: there)?|hey(?: there)?|good (?:morning|afternoon|evening|day)"
_FILLER = (
    r"ok(?:ay)?|yes|yeah|sure|so|well|oh|um+|alright|right|also|then|and|now|actually|just|kindly|quickly|next|finally"
    r"|first(?: of all)?|secondly|by the way|btw|but|great|perfect|cool|sorry|excuse me|instead|wait|no"
)
_ASKING = (
    r"(?:can|could|would|will|may|might) you(?: please| kindly| maybe| just| also)*"
    r"(?: be able to| be so (?:kind|nice)(?: as)? to| mind| help me(?: to)?| like to)?"
    r"|(?:can|could|shall|should|may) we(?: please)?|why (?:don't|not)(?: you| we)?|how about(?: you)?"
    r"|you (?:can|could|should|may)(?: now| also)?|(?:can|could|may) i ask you to"
)
_WISHING = (
    r"i(?:'d| would) (?:really )?(?:like|love|want|appreciate it if)(?: you)?(?: to|(?= a | an ))"
    r"|i (?:want|need|wish)(?: for)? you to|i want to|i wanna|i wish to|(?:i'm |i am )?trying to|let's|let us"
    r"|i(?:'d| would) be grateful if you(?: could| would)?|it would be (?:nice|great) if you (?:could|would)"
)
_BEGGING = r"please|pls|plz|help me(?: to)?|go ahead and|do me a favou?r and|be so (?:kind|nice)(?: as)? to"
_LEAD = pattern(rf"(?:(?:{_BEGGING}|{_GREETING}|{_FILLER}|{_ASKING}|{_WISHING})(?![\w'-])[\s,!:.…-]*)+")

_THANKS = r"thanks(?: a lot| so much| in advance)?|thank you(?: very much| so much| in advance)?|thx|ty|cheers"
_TAIL = pattern(
    rf"(?:[\s,;]*(?<![\w'-])(?:please|pls|plz|{_THANKS}|for me|will you|would you|could you|can you"
    r"|if you (?:can|could|don't mind|please)|ok(?:ay)?|right|asap please)(?![\w'-]))*[\s.!?…,;]*$"
)
_TAIL_WINDOW = 120
_COURTESY_ONLY = pattern(
    r"[\s\W]*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day|night)|there|thanks?|thank you|so|very|much|a lot"
    r"|in advance|please|everyone|all|again|cheers|thx)\b[\s\W]*)*"
)
_LONGEST_COURTESY = 200


def without_courtesy(text: str) -> str:
    """Drop what politeness puts before and after a request."""
    text = text.strip()
    lead = _LEAD.match(text)
    if lead and lead.end() < len(text):
        text = text[lead.end() :]
    return without_courteous_tail(text)


def without_courteous_tail(text: str) -> str:
    """Drop "please", thanks and closing punctuation at the end."""
    # Only the last words can be courtesies; searching the whole of a long text would be slow for nothing.
    match = _TAIL.search(text, max(0, len(text) - _TAIL_WINDOW))
    return text[: match.start() if match else len(text)].rstrip(" \t\r\n.!?…,;")


def is_courtesy(text: str) -> bool:
    """Tell whether a sentence is nothing but greeting or thanks."""
    return len(text) <= _LONGEST_COURTESY and bool(_COURTESY_ONLY.fullmatch(text))
