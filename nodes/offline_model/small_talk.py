"""Answer what asks for no tool: greetings, thanks, "what can you do", and what the rules do not understand."""

from collections.abc import Sequence

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_MAX_TOOLS = 12
_START = r"(?:\W*(?:oh|ok(?:ay)?|well|and|so|great|cool|perfect|nice|super)\b)*\W*"
_KINDS = tuple(
    (kind, pattern(_START + form + r".{0,80}"))
    for kind, form in (
        ("help", r"(?:help|what can (?:you|i) (?:do|ask)|what do you do|how (?:do|does|can) (?:i|this|you)\b|how do i|who are you|what are you|which tools|what tools)\b"),
        ("thanks", r"(?:thanks|thank you|thx|ty|cheers|much appreciated)\b"),
        ("bye", r"(?:bye|goodbye|good night|see you|farewell|that's all|that is all|have a)\b"),
        ("hello", r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|greetings|howdy|how are you|how's it going|what's up)\b"),
        ("no", r"(?:never ?mind|forget it|cancel|stop|no|nope|nah)\b"),
    )
)  # fmt: skip


def small_talk(text: str, tools: Sequence[ToolSpec], *, dropped: bool) -> str:
    """Answer a message that asks for no tool; `dropped` says that the user withdrew what was open."""
    if dropped:
        return "All right, I leave everything as it is."
    kind = next((kind for kind, form in _KINDS if form.match(text[:200])), "empty" if not text.strip() else "other")
    offer = _offer(tools)
    return {
        "hello": f"Hello! {offer}",
        "thanks": "You are welcome!",
        "bye": "Goodbye!",
        "no": "All right, I leave everything as it is.",
        "help": f"I am a small rule-based model for development without a network. {offer}",
        "empty": f"What can I do for you? {offer}",
        "other": f"I am a small rule-based model and have no answer to that. {offer}",
    }[kind]


def _offer(tools: Sequence[ToolSpec]) -> str:
    if not tools:
        return "No tools are bound to me at the moment."
    listed = [_purpose(tool) for tool in tools[:_MAX_TOOLS]]
    more = f"\n… and {len(tools) - _MAX_TOOLS} more" if len(tools) > _MAX_TOOLS else ""
    return "I can use these tools:\n" + "\n".join(listed) + more


def _purpose(tool: ToolSpec) -> str:
    first = tool.description.strip().split("\n")[0][:120]
    return f"- {tool.name}: {first}" if first else f"- {tool.name}"
