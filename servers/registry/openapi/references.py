"""Follow `$ref`s inside an OpenAPI document; nothing is ever fetched or opened."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

MOST_HOPS = 50
_SHOWN = 100


class Unusable(ValueError):
    """A part of a document of which no tool can be made; the text is the reason, one sentence."""


class ExternalReference(Unusable):
    """A reference leads out of the document."""


def shown(text: Any) -> str:
    """Show a name or URL of a stranger's document within a sentence."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in str(text)[:_SHOWN])


@dataclass(frozen=True, slots=True)
class Document:
    """An OpenAPI document of plain JSON values (`read_document`)."""

    content: dict[str, Any]

    def part(self, pointer: str) -> Any:
        """Return what `#/…` points to.

        Raises:
            ExternalReference: it points into another document.
            Unusable: it points to nothing.
        """
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
            if not isinstance(value, dict):
                raise Unusable("a part of it is no object where the OpenAPI specification wants one")
            pointer = value.get("$ref")
            if not isinstance(pointer, str):
                return value
            value = self.part(pointer)
        raise Unusable(f"its reference {shown(pointer)} leads in a circle")
