"""Read the lines of an article in markdown: which are prose, items of lists, rows, code, images and headings."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from toolweave.nodes.offline_model.scripts.inline_marks import without_marks

Kind = Literal["heading", "prose", "item", "row", "code", "image"]

CONTINUED = " (continued)"
_HEADING = re.compile(r"#{1,6}[ \t]+(?P<text>\S.*)")
_FENCE = re.compile(r"[ \t]{0,3}(?P<marks>`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣·–]|\(?\d{1,3}[.)])[ \t]+(?P<text>\S.*)")
_IMAGE = re.compile(r"!\[(?P<alt>[^\[\]\n]*)\]\((?P<caption>.*)\)")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*")
_RULE = re.compile(r"[\s|:=*_-]*")
_QUOTED = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")
_INDENTED = re.compile(r"(?: {4}|\t)")
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")


class Piece(NamedTuple):
    """A paragraph, an item, a row, a line of code or a heading, its marks taken out; of an image, its alt text too."""

    kind: Kind
    text: str
    alt: str = ""


def pieces_of(markdown: str) -> Iterator[Piece]:
    """Yield the pieces in their order."""
    return _Lines(markdown.splitlines()).pieces()


class _Lines:
    """Go through the lines; `_held` is the paragraph or item that they are in, `_fence` what opened the code."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._held: list[str] = []
        self._kind: Kind = "prose"
        self._fence = ""

    def pieces(self) -> Iterator[Piece]:
        for place, line in enumerate(self._lines):
            fence = _FENCE.match(line)
            if self._fence or fence:
                yield from self._ended()
                yield from self._code(line, fence)
            elif (piece := self._standing_alone(line)) is not None:
                yield from self._ended()
                yield piece
                if piece.kind == "heading" and _begins_in_code(piece.text, self._lines, place):
                    self._fence = "```"
            else:
                yield from self._words(line)
        yield from self._ended()

    def _code(self, line: str, fence: re.Match[str] | None) -> Iterator[Piece]:
        if not self._fence and fence:
            self._fence = fence["marks"]
        elif fence and line.strip().startswith(self._fence):
            self._fence = ""
        else:
            yield Piece("code", line.rstrip())

    def _standing_alone(self, line: str) -> Piece | None:
        """Read a line that is no part of a paragraph."""
        bare = line.strip()
        if found := _HEADING.fullmatch(line):
            return Piece("heading", without_marks(found["text"]))
        if found := _IMAGE.fullmatch(_bullet_taken(bare)):
            return Piece("image", without_marks(found["caption"]), without_marks(found["alt"]))
        if _ROW.fullmatch(line) and bare != "|":
            cells = [without_marks(cell) for cell in bare.strip("|").split("|")]
            return Piece("row", ", ".join(cell for cell in cells if not _RULE.fullmatch(cell)))
        if bare and _RULE.fullmatch(bare):
            return Piece("code", "")
        if bare and not self._held and self._kind == "prose" and _INDENTED.match(line):
            return Piece("code", line.rstrip())
        return None

    def _words(self, line: str) -> Iterator[Piece]:
        """Hold a line of text; an empty one ends what is held, and what is indented below an item belongs to it."""
        if not line.strip():
            yield from self._ended()
        elif found := _ITEM.fullmatch(line):
            yield from self._ended()
            self._held, self._kind = [found["text"].strip()], "item"
        else:
            if not self._held and not _INDENTED.match(line):
                self._kind = "prose"
            self._held.append(_QUOTED.sub("", line).strip())

    def _ended(self) -> Iterator[Piece]:
        """Give what is held as one piece, and hold nothing any more."""
        joined = ""
        for line in self._held:
            near = joined[-1:] + line[:1]
            joined += line if not joined or all(map(_WIDE.match, near)) else f" {line}"
        self._held = []
        if text := without_marks(joined):
            yield Piece(self._kind, text)


def _bullet_taken(line: str) -> str:
    found = _ITEM.fullmatch(line)
    return found["text"].strip() if found else line


def _begins_in_code(heading: str, lines: Sequence[str], place: int) -> bool:
    """Tell of a section that was divided whether it was divided in the middle of code."""
    if not heading.endswith(CONTINUED):
        return False
    fences = 0
    for line in lines[place + 1 :]:
        if _HEADING.fullmatch(line) and fences % 2 == 0:
            break
        fences += bool(_FENCE.match(line))
    return fences % 2 == 1
