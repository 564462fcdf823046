"""Hold what a script is written from, an article's sections in order, and divide a long article into parts.

Parts end between sections, then paragraphs, then sentences. Nothing is lost: the pieces of a section, joined, are its
text again.
"""

import re
from collections.abc import Iterator, Sequence

from toolweave.nodes.script.page import ArticlePage, Block, split_sections

MAX_HEADING_CHARS = 300


def page_blocks(page: ArticlePage) -> list[Block]:
    """Give the sections of a page."""
    return [make_block(*section) for section in split_sections(page["text"])]


def make_block(heading: str, text: str) -> Block:
    """Make a block; a heading that is too long for one stands in the text, too."""
    line = " ".join(heading.split())
    if len(line) <= MAX_HEADING_CHARS:
        return Block(line, text.strip())
    return Block(line[:MAX_HEADING_CHARS] + "…", f"{line}\n\n{text}".strip())


def blocks_to_markdown(blocks: Sequence[Block]) -> str:
    """Write blocks one below the other, each heading as a line `## heading`."""
    return "\n\n".join(part for block in blocks for part in _markdown_parts(block))


def _markdown_parts(block: Block) -> Iterator[str]:
    if block.heading:
        yield f"## {block.heading}"
    if block.text:
        yield block.text


CONTINUED = " (continued)"
_UNITS_PER_TOKEN = 12
_FRAME_WEIGHT = 4 * _UNITS_PER_TOKEN
"""Room for the marks around a heading and the empty lines around a text."""
_MAX_CHAR_WEIGHT = 16
"""What one character counts at most, in twelfths of a token."""
_SENTENCE_END = r"[.!?…؟।][\"'”’»)\]]*\s+|[。！？][”’」』）]*\s*"
_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n[ \t]*\n\s*", r"\n", _SENTENCE_END, r"\s+"))


def estimate_tokens(blocks: Sequence[Block]) -> int:
    """Estimate how many tokens blocks take with their headings: a quarter of one for a Latin character.

    A Chinese character counts as a whole one, an accented, Greek or Cyrillic one as two thirds: rather too many than
    too few.
    """
    return -(-sum(map(_block_weight, blocks)) // _UNITS_PER_TOKEN)


def split_into_parts(blocks: Sequence[Block], budget: int) -> list[list[Block]]:
    """Divide blocks into as few parts as their order allows, each of `budget` estimated tokens at most.

    A section that is longer than a part is divided, and its heading repeated. `budget` must leave room for a heading:
    500 does.
    """
    room = budget * _UNITS_PER_TOKEN
    parts: list[list[Block]] = []
    left = 0
    for block in blocks:
        for piece in [block] if _block_weight(block) <= room else _split_block(block, room):
            weight = _block_weight(piece)
            if weight > left or not parts:
                parts.append([])
                left = room
            parts[-1].append(piece)
            left -= weight
    return parts


def count_sentences(text: str) -> int:
    """Count the sentences or lines of a text."""
    return sum(any(map(str.isalnum, part)) for line in text.splitlines() for part in _split_after(line, _BREAKS[2]))


def _split_block(block: Block, room: int) -> Iterator[Block]:
    heading = block.heading
    for text in _pack_text(block.text, room - _block_weight(Block(block.heading + CONTINUED, ""))):
        yield Block(heading, text)
        heading = block.heading and block.heading + CONTINUED


def _pack_text(text: str, room: int) -> Iterator[str]:
    """Join what stands side by side as long as there is room."""
    held: list[str] = []
    left = room
    for atom in _split_text(text, room, 0):
        weight = _text_weight(atom)
        if weight > left:
            yield "".join(held)
            held, left = [], room
        held.append(atom)
        left -= weight
    if held:
        yield "".join(held)


def _split_text(text: str, room: int, level: int) -> Iterator[str]:
    """Cut a text where it hurts least until every piece has room."""
    if _text_weight(text) <= room:
        yield text
    elif level == len(_BREAKS):
        step = max(room // _MAX_CHAR_WEIGHT, 1)
        yield from (text[start : start + step] for start in range(0, len(text), step))
    else:
        for piece in _split_after(text, _BREAKS[level]):
            yield from _split_text(piece, room, level + 1)


def _split_after(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Cut behind every match; the pieces, joined, are the text."""
    start = 0
    for found in ends.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]


def _block_weight(block: Block) -> int:
    return _text_weight(block.heading) + _text_weight(block.text) + _FRAME_WEIGHT


def _text_weight(text: str) -> int:
    """Give twelfths of tokens; those of two texts add up to those of the two joined."""
    all_bytes = len(text.encode("utf-8", "surrogatepass"))
    plain = len(text.encode("ascii", "ignore"))
    return 3 * plain + 4 * (all_bytes - plain)
