"""Answer what asks for no tool: greetings, thanks, "what can you do", and what the rules do not understand."""

from collections.abc import Sequence

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.plain_words import listed
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

NOTICE = "(offline model)"
"""What every answer ends with that no tool gave (O-04)."""

_LONGEST_PURPOSE = 120
_START = r"(?:\W*(?:oh|ok(?:ay)?|well|and|so|great|cool|perfect|nice|super)\b)*\W*"
_HELP = (
    r"(?:help|what can (?:you|i) (?:do|ask)|what do you do|how (?:do|does|can) (?:i|this|you)\b|how do i|who are you"
    r"|what are you|which tools|what tools)\b"
)
_HELLO = (
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|greetings|howdy|how are you|how's it going"
    r"|what's up)\b"
)
_KINDS = (
    ("help", _HELP),
    ("thanks", r"(?:thanks|thank you|thx|ty|cheers|much appreciated)\b"),
    ("bye", r"(?:bye|goodbye|good night|see you|farewell|that's all|that is all|have a)\b"),
    ("hello", _HELLO),
    ("no", r"(?:never ?mind|forget it|cancel|stop|no|nope|nah)\b"),
)
_MOST_TEXT = 200


def with_notice(text: str) -> str:
    """Mark an answer that no tool gave (O-04)."""
    return f"{text}\n{NOTICE}"


def small_talk(text: str, tools: Sequence[ToolSpec], *, dropped: bool) -> str:
    """Answer a message that asks for no tool; `dropped` says that the user withdrew what was open."""
    kind = next((kind for kind, form in _KINDS if pattern(_START + form).match(text[:_MOST_TEXT])), "other")
    if dropped or kind == "no":
        return "All right, I leave everything as it is."
    if kind == "thanks":
        return "You are welcome!"
    if kind == "bye":
        return "Goodbye!"
    offer = _offer(tools)
    if kind == "hello":
        return f"Hello! {offer}"
    if kind == "help":
        return f"I am a small rule-based model for development without a network. {offer}"
    if not text.strip():
        return f"What can I do for you? {offer}"
    return f"I am a small rule-based model and have no answer to that. {offer}"


def _offer(tools: Sequence[ToolSpec]) -> str:
    if not tools:
        return "No tools are bound to me at the moment."
    return "\n".join(["I can use these tools:", *listed([_purpose(tool) for tool in tools])])


def _purpose(tool: ToolSpec) -> str:
    first = tool.description.strip().split("\n")[0][:_LONGEST_PURPOSE]
    return f"- {tool.name}: {first}" if first else f"- {tool.name}"
