"""Hold what a script is written from: an article's sections in order, as a model is shown them."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolweave.nodes.script.page import Page

LONGEST_HEADING = 300
_IMAGE = re.compile(
    r"!\[(?P<alt>(?:[^\[\]\\\n]|\\.)*)\]\((?:<[^<>\n]*>|(?:[^()<\s]|\([^()\s]*\))*)"
    r"(?:[ \t]+\"(?P<caption>(?:[^\"\\\n]|\\.)*)\")?[ \t]*\)"
)
_ESCAPED = re.compile(r"\\([\[\]\"\\])")
_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A part of an article; a heading that is empty goes on with what precedes it."""

    heading: str
    text: str


def blocks_of(page: Page) -> list[Block]:
    """Give the sections of a page; images are lines `![alt](caption)`, those that its text leaves out at the end."""
    sections = [(section["heading"], section["text"]) for section in page["sections"]] or [("", page["text"])]
    shown: set[str] = set()
    blocks = [
        block_of(heading, _without_sources(text, shown))
        for heading, text in sections
        if heading.strip() or text.strip()
    ]
    images = dict.fromkeys(_image(image["alt"], image["caption"]) for image in page["images"])
    missing = [line for line in images if line != "![]()" and line not in shown]
    return [*blocks, Block("", "\n".join(missing))] if missing else blocks


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


def _without_sources(text: str, shown: set[str]) -> str:
    """Leave out where images lie, which only takes room; code stays as it is. `shown` gets the images."""
    if "![" not in text:
        return text
    pieces = []
    end = 0
    for code in _FENCED.finditer(text):
        pieces += [_shortened(text[end : code.start()], shown), code[0]]
        end = code.end()
    return "".join([*pieces, _shortened(text[end:], shown)])


def _shortened(text: str, shown: set[str]) -> str:
    def written(found: re.Match[str]) -> str:
        image = _image(found["alt"], found["caption"] or "")
        shown.add(image)
        return image

    return _IMAGE.sub(written, text)


def _image(alt: str, caption: str) -> str:
    return f"![{_plain(alt)}]({_plain(caption)})"


def _plain(words: str) -> str:
    """Write a text as one line without what ends it there."""
    return " ".join(_ESCAPED.sub(r"\1", words).replace("[", "(").replace("]", ")").split())
