"""Say what a server asked during a tool call, and what a person answered, as plain data (S-07)."""

from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from mcp.types import CallToolResult

OUR_KEYS = "toolweave/"
"""How those keys of a result's `_meta` begin that only we set."""

QUESTIONS_KEY = "toolweave/questions"
"""Where a result's `_meta`, and the artifact of a tool message, hold the questions that nobody has answered yet."""

DOUBT_KEY = "toolweave/doubt"
"""Where a result's `_meta` says that something was cancelled which this call, or another, may have asked."""


class Question(TypedDict):
    """What a server wants to know, and the JSON schema of the flat object that answers it."""

    message: str
    requestedSchema: dict[str, Any]


class Answer(Question):
    """A question with its answer; `content` fits the schema, and is None for a question declined."""

    action: Literal["accept", "decline"]
    content: dict[str, Any] | None


def questions_of(result: "CallToolResult") -> list[Question]:
    """Return what was asked during the call and answered `cancel`."""
    return list((result.meta or {}).get(QUESTIONS_KEY, ()))


def is_doubtful(result: "CallToolResult") -> bool:
    """Say whether the call may have asked something that could not be told to be its question."""
    return bool((result.meta or {}).get(DOUBT_KEY))


def unanswered(questions: list[Question], why: str, answered: str) -> str:
    """Write what the model reads instead of the result of a call whose questions no person can be asked."""
    asked = "; ".join(f"“{question['message'][:500]}”" for question in questions)
    instead = f" Without an answer it said: {answered[:1_000]}" if answered else ""
    return f"During this call the tool's server asked: {asked}. {why}{instead}"
