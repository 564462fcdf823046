"""Ask a person by one interrupt with a list of requests, and understand the list of answers (S-07).

Requests and answers have the form of Agent Inbox: HumanInterrupt and HumanResponse. An answer that cannot be used is
never a failure: the same requests are put again, with what was wrong in their description.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt
from typing_extensions import TypedDict

T = TypeVar("T")
Kind = Literal["approve", "edit", "reject", "respond"]

UNATTENDED = "unattended"
"""The key of a run's `configurable` that says that nobody can answer: no thread is kept, or nobody watches it."""

_KINDS: dict[object, Kind] = {
    "accept": "approve",
    "approve": "approve",
    "edit": "edit",
    "ignore": "reject",
    "reject": "reject",
    "response": "respond",
    "respond": "respond",
}
_FORM = '{"type": "approve" | "edit" | "reject" | "respond", "args": …}'


class ActionRequest(TypedDict):
    """What is about to happen, or what is asked."""

    action: str
    args: dict[str, Any]


class HumanInterruptConfig(TypedDict):
    """Which kinds of answers are possible."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class HumanInterrupt(TypedDict):
    """One request to a person, as Agent Inbox and Agent Chat UI show it."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str


@dataclass(frozen=True, slots=True)
class HumanResponse:
    """One answer, in the words of our API; `args` is as given."""

    kind: Kind
    args: Any = None


class Unusable(ValueError):
    """An answer that does not say what to do; the text tells the person why."""


def is_unattended(config: RunnableConfig) -> bool:
    """Say whether the run is one whose questions nobody could answer."""
    return bool((config.get("configurable") or {}).get(UNATTENDED))


def ask(requests: Sequence[HumanInterrupt], understand: Callable[[list[HumanResponse]], T]) -> T:
    """Interrupt the run until the answers make sense, one for each request; return what they mean.

    Args:
        requests: what is asked.
        understand: makes sense of as many answers; raises `Unusable` where it cannot.
    """
    problem = ""
    while requests:
        answer = interrupt([_again(request, problem) for request in requests])
        try:
            return understand(_responses(answer, len(requests)))
        except Unusable as error:
            problem = str(error)
    return understand([])


def _again(request: HumanInterrupt, problem: str) -> HumanInterrupt:
    if not problem:
        return request
    return {**request, "description": f"The answer could not be used: {problem}\n\n{request['description']}"}


def _responses(answer: object, expected: int) -> list[HumanResponse]:
    given = [answer] if expected == 1 and isinstance(answer, dict | str) else answer
    if not isinstance(given, list) or len(given) != expected:
        raise Unusable(f"resume with a list of {expected} answers, in the order of the requests; each is {_FORM}.")
    return [_response(item) for item in given]


def _response(item: object) -> HumanResponse:
    written = {"type": item} if isinstance(item, str) else item
    if not isinstance(written, dict):
        raise Unusable(f"an answer is {_FORM}.")
    word = written.get("type")
    if not isinstance(word, str) or word not in _KINDS:
        raise Unusable(f"its type is {str(word)[:50]!r}; an answer is {_FORM}.")
    return HumanResponse(_KINDS[word], written.get("args"))
