"""Hold what a script is written from, an article's sections in order, and divide a long article into parts.

Parts end between sections, then paragraphs, then sentences. Nothing is lost: the pieces of a section, joined, are its
text again.
"""

import re
from collections.abc import Iterator, Sequence

from toolweave.nodes.script.page import ArticlePage, Block, sections_of

LONGEST_HEADING = 300


def blocks_of(page: ArticlePage) -> list[Block]:
    """Give the sections of a page."""
    return [block_of(*section) for section in sections_of(page["text"])]


def block_of(heading: str, text: str) -> Block:
    """Make a block; a heading that is too long for one stands in the text, too."""
    line = " ".join(heading.split())
    if len(line) <= LONGEST_HEADING:
        return Block(line, text.strip())
    return Block(line[:LONGEST_HEADING] + "…", f"{line}\n\n{text}".strip())


def as_markdown(blocks: Sequence[Block]) -> str:
    """Write blocks one below the other, each heading as a line `## heading`."""
    return "\n\n".join(part for block in blocks for part in _written(block))


def _written(block: Block) -> Iterator[str]:
    if block.heading:
        yield f"## {block.heading}"
    if block.text:
        yield block.text


CONTINUED = " (continued)"
_TWELFTHS = 12
_FRAME = 4 * _TWELFTHS
"""Room for the marks around a heading and the empty lines around a text."""
_HEAVIEST = 16
"""What one character counts at most, in twelfths of a token."""
_SENTENCE = r"[.!?…؟।][\"'”’»)\]]*\s+|[。！？][”’」』）]*\s*"
_ENDS = tuple(re.compile(pattern) for pattern in (r"\n[ \t]*\n\s*", r"\n", _SENTENCE, r"\s+"))


def tokens_of(blocks: Sequence[Block]) -> int:
    """Estimate how many tokens blocks take with their headings: a quarter of one for a Latin character.

    A Chinese character counts as a whole one, an accented, Greek or Cyrillic one as two thirds: rather too many than
    too few.
    """
    return -(-sum(map(_block_weight, blocks)) // _TWELFTHS)


def parts_of(blocks: Sequence[Block], budget: int) -> list[list[Block]]:
    """Divide blocks into as few parts as their order allows, each of `budget` estimated tokens at most.

    A section that is longer than a part is divided, and its heading repeated. `budget` must leave room for a heading:
    500 does.
    """
    room = budget * _TWELFTHS
    parts: list[list[Block]] = []
    left = 0
    for block in blocks:
        for piece in [block] if _block_weight(block) <= room else _pieces(block, room):
            weight = _block_weight(piece)
            if weight > left or not parts:
                parts.append([])
                left = room
            parts[-1].append(piece)
            left -= weight
    return parts


def sentences_in(text: str) -> int:
    """Count the sentences or lines of a text."""
    return sum(any(map(str.isalnum, sentence)) for line in text.splitlines() for sentence in _cut(line, _ENDS[2]))


def _pieces(block: Block, room: int) -> Iterator[Block]:
    heading = block.heading
    for text in _packed(block.text, room - _block_weight(Block(block.heading + CONTINUED, ""))):
        yield Block(heading, text)
        heading = block.heading and block.heading + CONTINUED


def _packed(text: str, room: int) -> Iterator[str]:
    """Join what stands side by side as long as there is room."""
    held: list[str] = []
    left = room
    for atom in _atoms(text, room, 0):
        weight = _weight(atom)
        if weight > left:
            yield "".join(held)
            held, left = [], room
        held.append(atom)
        left -= weight
    if held:
        yield "".join(held)


def _atoms(text: str, room: int, level: int) -> Iterator[str]:
    """Cut a text where it hurts least until every piece has room."""
    if _weight(text) <= room:
        yield text
    elif level == len(_ENDS):
        step = max(room // _HEAVIEST, 1)
        yield from (text[start : start + step] for start in range(0, len(text), step))
    else:
        for piece in _cut(text, _ENDS[level]):
            yield from _atoms(piece, room, level + 1)


def _cut(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Cut behind every match; the pieces, joined, are the text."""
    start = 0
    for found in ends.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]


def _block_weight(block: Block) -> int:
    return _weight(block.heading) + _weight(block.text) + _FRAME


def _weight(text: str) -> int:
    """Give twelfths of tokens; those of two texts add up to those of the two joined."""
    all_bytes = len(text.encode("utf-8", "surrogatepass"))
    plain = len(text.encode("ascii", "ignore"))
    return 3 * plain + 4 * (all_bytes - plain)
