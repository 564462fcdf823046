"""A page's article: how to build it from markdown, and how to split it (A-04).

Both fetch methods return an ArticlePage, from which the script is written. The process that reads pages imports this
module, so it imports only small modules. A block is a section; a long article is split into parts that fit into a token
budget. A part ends between sections if possible, otherwise between paragraphs or sentences. No text is lost: the joined
pieces of a section equal its text.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from typing_extensions import TypedDict


class Block(NamedTuple):
    """A part of an article; an empty heading means that it continues the previous block."""

    heading: str
    text: str


class ArticlePage(TypedDict):
    """A page's article as JSON values for checkpoints.

    `text` is markdown with all headings but the title; an image is `![alt](caption)`. `language` is the language that
    the page declares, such as "de" or "pt-BR", or empty.
    """

    url: str
    final_url: str
    title: str
    site: str
    language: str
    text: str


MIN_LETTERS = 60
"""A text with fewer letters is a notice, not an article."""
# Enough for every threshold that the count is compared with.
_MAX_COUNTED_CHARS = 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def page_from_markdown(markdown: str, url: str, *, title: str = "", site: str = "", language: str = "") -> ArticlePage:
    """Build a page from markdown.

    Args:
        markdown: the article.
        url: its URL.
        title: default: the first heading, or else the file name; a heading that repeats the title is removed.
        site: default: the host name.
        language: the language that the page declares.
    """
    parts = urlsplit(url)
    first = next((block.heading for block in split_sections(markdown) if block.heading), "")
    title = title or first or unquote(parts.path.rpartition("/")[2].rpartition(".")[0]) or parts.netloc
    heading = rf"^ {{0,3}}#{{1,6}}[ \t]+{re.escape(title)}[ \t#]*$"
    return ArticlePage(
        url=url,
        final_url=url,
        title=title,
        site=site or parts.hostname or "",
        language=language,
        text=re.sub(heading, "", markdown, count=1, flags=re.MULTILINE).strip("\n"),
    )


def split_sections(markdown: str) -> list[Block]:
    """Split markdown at its headings, not inside code blocks; empty sections are left out."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line, is_code in markdown_lines(markdown):
        if not is_code and (found := _HEADING.fullmatch(line)):
            sections.append((found[2].strip(), []))
        else:
            sections[-1][1].append(line)
    blocks = (Block(heading, "\n".join(lines).strip("\n")) for heading, lines in sections)
    return [block for block in blocks if any(block)]


def count_letters(text: str) -> int:
    """Count the letters of a text, an ideograph as three; only the first _MAX_COUNTED_CHARS count."""
    return sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text[:_MAX_COUNTED_CHARS] if letter.isalnum())


def markdown_lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it belongs to a code block or its fences."""
    fence = ""
    for line in re.split(r"\r\n|\r|\n", markdown):
        found = _FENCE.match(line)
        if not fence:
            fence = found[1] if found else ""
            yield line, bool(fence)
            continue
        yield line, True
        if found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""


def is_web_url(text: str) -> bool:
    """Return whether a text is an http or https URL."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)


MAX_HEADING_CHARS = 300


def page_blocks(page: ArticlePage) -> list[Block]:
    """Return a page's sections as blocks."""
    return [make_block(*section) for section in split_sections(page["text"])]


def make_block(heading: str, text: str) -> Block:
    """Build a block; a heading that is too long is shortened and repeated in full in the text."""
    line = " ".join(heading.split())
    if len(line) <= MAX_HEADING_CHARS:
        return Block(line, text.strip())
    return Block(line[:MAX_HEADING_CHARS] + "…", f"{line}\n\n{text}".strip())


def blocks_to_markdown(blocks: Sequence[Block]) -> str:
    """Return the blocks as markdown, each heading as a line `## heading`."""
    return "\n\n".join(part for block in blocks for part in _markdown_parts(block))


def _markdown_parts(block: Block) -> Iterator[str]:
    if block.heading:
        yield f"## {block.heading}"
    if block.text:
        yield block.text


CONTINUED = " (continued)"
_UNITS_PER_TOKEN = 12
_FRAME_WEIGHT = 4 * _UNITS_PER_TOKEN
"""Weight of the marks around a heading and the empty lines around a text."""
_MAX_CHAR_WEIGHT = 16
"""Maximum weight of one character, in twelfths of a token."""
_SENTENCE_END = r"[.!?…؟।][\"'”’»)\]]*\s+|[。！？][”’」』）]*\s*"
_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n[ \t]*\n\s*", r"\n", _SENTENCE_END, r"\s+"))


def estimate_tokens(blocks: Sequence[Block]) -> int:
    """Estimate the tokens of blocks with their headings: a quarter of a token for a Latin character.

    A Chinese character counts as one token, an accented, Greek or Cyrillic one as two thirds. The estimate is rather
    too high than too low.
    """
    return -(-sum(map(_block_weight, blocks)) // _UNITS_PER_TOKEN)


def split_into_parts(blocks: Sequence[Block], budget: int) -> list[list[Block]]:
    """Split blocks, in their order, into as few parts as possible of at most `budget` estimated tokens each.

    A section that is longer than a part is split, and its heading repeated. `budget` must leave room for a heading:
    500 is enough.
    """
    room = budget * _UNITS_PER_TOKEN
    parts: list[list[Block]] = []
    room_left = 0
    for block in blocks:
        for piece in [block] if _block_weight(block) <= room else _split_block(block, room):
            weight = _block_weight(piece)
            if weight > room_left or not parts:
                parts.append([])
                room_left = room
            parts[-1].append(piece)
            room_left -= weight
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
    """Join consecutive pieces of a text until the room is used up."""
    pieces: list[str] = []
    room_left = room
    for piece in _split_text(text, room, 0):
        weight = _text_weight(piece)
        if weight > room_left:
            yield "".join(pieces)
            pieces, room_left = [], room
        pieces.append(piece)
        room_left -= weight
    if pieces:
        yield "".join(pieces)


def _split_text(text: str, room: int, level: int) -> Iterator[str]:
    """Split a text at the strongest break first, until each piece fits into the room."""
    if _text_weight(text) <= room:
        yield text
    elif level == len(_BREAKS):
        step = max(room // _MAX_CHAR_WEIGHT, 1)
        yield from (text[start : start + step] for start in range(0, len(text), step))
    else:
        for piece in _split_after(text, _BREAKS[level]):
            yield from _split_text(piece, room, level + 1)


def _split_after(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Split a text after every match; the joined pieces equal the text."""
    start = 0
    for found in ends.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]


def _block_weight(block: Block) -> int:
    return _text_weight(block.heading) + _text_weight(block.text) + _FRAME_WEIGHT


def _text_weight(text: str) -> int:
    """Return the weight in twelfths of a token; the weights of two texts add up to that of the joined text."""
    all_bytes = len(text.encode("utf-8", "surrogatepass"))
    plain = len(text.encode("ascii", "ignore"))
    return 3 * plain + 4 * (all_bytes - plain)
