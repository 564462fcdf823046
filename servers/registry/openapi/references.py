"""Follow `$ref`s inside an OpenAPI document, within a bounded number of steps; nothing is ever fetched or opened."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

MOST_HOPS = 50
STEPS_IN_ALL = 6_000_000
STEPS_OF_OPERATION = 300_000
CHARACTERS_OF_A_STEP = 50
_SHOWN = 100
OTHER_LENGTH = 8


class Unusable(ValueError):
    """A part of a document of which no tool can be made; the text is the reason, one sentence."""


class ExternalReference(Unusable):
    """A reference leads out of the document."""


class OutOfSteps(Exception):
    """The import has taken all its steps."""


def shown(text: Any) -> str:
    """Show a name or URL of a stranger's document within a sentence."""
    text = f"a value of type {type(text).__name__}" if isinstance(text, dict | list) else str(text)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text[:_SHOWN])


@dataclass(slots=True)
class Steps:
    """How many steps of about a microsecond an import may still take; those of an operation are taken from `whole`.

    References let a few kilobytes stand for any amount of work. So whatever reads a part of a document that a reference
    can lead to takes steps for its size.
    """

    left: int = STEPS_IN_ALL
    whole: "Steps | None" = None

    def take(self, steps: int) -> None:
        """Take steps.

        Raises:
            OutOfSteps: the import has none left.
            Unusable: the operation has none left.
        """
        self.left -= steps
        if self.left < 0:
            if self.whole is None:
                raise OutOfSteps
            self.whole.left -= steps
            raise Unusable(
                f"reading it with all that it refers to takes more than {STEPS_OF_OPERATION:,} steps;"
                " let it refer to less, or leave it out"
            )
        if self.whole is not None:
            self.whole.take(steps)


def size(value: Any, most: int) -> tuple[int, int]:
    """Count parts and characters of a value; what has more than `most` parts is not looked at to its end."""
    left, parts, characters = [value], 0, 0
    while left and parts + len(left) <= most:
        part = left.pop()
        parts += 1
        characters += len(part) if isinstance(part, str) else OTHER_LENGTH
        if isinstance(part, dict):
            characters += sum(map(len, part))
        if isinstance(part, dict | list):
            left.extend(part.values() if isinstance(part, dict) else part)
    return parts + len(left), characters


@dataclass(frozen=True, slots=True)
class Document:
    """An OpenAPI document of plain JSON values (`read_document`), and the steps that reading it may take."""

    content: dict[str, Any]
    steps: Steps = field(default_factory=Steps)

    def for_operation(self) -> "Document":
        """Give the same document with the steps that one operation may take."""
        return replace(self, steps=Steps(STEPS_OF_OPERATION, self.steps))

    def look_through(self, values: Collection[Any]) -> None:
        """Take the steps for looking at each key of an object, or each item of a list, but not into them."""
        characters = sum(len(one) for one in values if isinstance(one, str))
        self.steps.take(1 + len(values) + characters // CHARACTERS_OF_A_STEP)

    def look_into(self, value: Any, steps_of_part: int = 1) -> None:
        """Take the steps for looking at a value with everything in it."""
        parts, characters = size(value, self.steps.left // steps_of_part)
        self.steps.take(parts * steps_of_part + characters // CHARACTERS_OF_A_STEP)

    def part(self, pointer: str) -> Any:
        """Return what `#/…` points to.

        Raises:
            ExternalReference: it points into another document.
            Unusable: it points to nothing.
        """
        self.steps.take(1 + pointer.count("/") + len(pointer) // CHARACTERS_OF_A_STEP)
        if not pointer.startswith("#"):
            raise ExternalReference(
                f"it refers to another document, {shown(pointer)}; only references inside it are followed"
            )
        found: Any = self.content
        for step in pointer[1:].split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and len(name) < 10 and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise Unusable(f"its reference {shown(pointer)} leads nowhere")
        if "/" not in pointer and pointer != "#":
            raise Unusable(f"its reference {shown(pointer)} is no path into the document")
        return found

    def follow(self, value: Any) -> dict[str, Any]:
        """Return an object of the document, or what its reference leads to, however many steps away.

        Raises:
            Unusable: the references lead nowhere, elsewhere or in a circle, or not to an object.
        """
        for _ in range(MOST_HOPS):
            self.steps.take(1)
            if not isinstance(value, dict):
                raise Unusable("a part of it is no object where the OpenAPI specification wants one")
            pointer = value.get("$ref")
            if not isinstance(pointer, str):
                return value
            value = self.part(pointer)
        raise Unusable(f"its reference {shown(pointer)} leads in a circle")
