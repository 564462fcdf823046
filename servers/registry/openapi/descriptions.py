"""Write the name and the description of a tool from what a document says about its operation."""

import re

from openapi_pydantic import Operation

LONGEST_TITLE = 200
LONGEST_DESCRIPTION = 10_000
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_SAYS_NOTHING = re.compile(
    r"(?:(?:a |the )?(?:ok|success(?:ful)?|response|operation|request|default|done)[\s.!]*)*", re.IGNORECASE
)


def title_of(operation: Operation, method: str, path: str) -> str:
    """Give the summary, else the operation's id in words, else method and path."""
    summary = " ".join((operation.summary or "")[:LONGEST_DESCRIPTION].split())
    words = " ".join(_WORD_ENDS.sub(" ", (operation.operationId or "")[:LONGEST_DESCRIPTION]).split())
    title = summary or (words[:1].upper() + words[1:].lower()) or f"{method} {path}"
    return title[:LONGEST_TITLE]


def description_of(operation: Operation, method: str, path: str, returned: str) -> str:
    """Join summary, description and what is returned, where these say something."""
    texts = (operation.summary, operation.description)
    summary, described = ((text or "")[:LONGEST_DESCRIPTION].strip() for text in texts)
    parts = [] if summary.rstrip(".") in described else [_sentence(summary)]
    parts.append(described)
    if not summary and not described:
        parts.append(_sentence(title_of(operation, method, path)))
    if not _SAYS_NOTHING.fullmatch(returned.strip()[:100]):
        parts.append(f"Returns: {_sentence(returned.strip())}")
    if operation.deprecated:
        parts.append("Deprecated: the API asks not to use it any more.")
    return "\n\n".join(part for part in parts if part)[:LONGEST_DESCRIPTION]


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
