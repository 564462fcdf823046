"""Hide what must be taken as it stands (quoted text, URLs, addresses, paths) behind one character each.

Rules then work on plain words and cannot trip over a verb inside a quoted title; `restore` brings the text back.
"""

import re
from dataclasses import dataclass
from typing import Literal

LiteralKind = Literal["quoted", "url", "email", "path"]

_FIRST = 0xE000
_LAST = 0xF8FF
HIDDEN = f"[{chr(_FIRST)}-{chr(_LAST)}]"

_HIDDEN = re.compile(HIDDEN)
_FIND = re.compile(
    r"""
      "(?P<double>[^"\n]{1,2000})"
    | “(?P<curly>[^”\n]{1,2000})”
    | «(?P<angle>[^»\n]{1,2000})»
    | `(?P<tick>[^`\n]{1,2000})`
    | (?<!\w)['‘](?P<single>(?:[^'’\n]|['’](?=\w)){1,2000})['’](?!\w)
    | (?P<url>\bhttps?://[^\s<>"'”]{1,2000})
    | (?P<email>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6})
    | (?P<path>(?<![\w/*.~-])(?:~|\.{1,2})?/[\w.*~/-]{1,400}
        | (?<![\w/*.~-])[\w.*~-]{1,200}/[\w.*~/-]{1,400}(?<=[\w*/])
        | (?<![\w/*.~-])(?:[\w-]{1,100}|\*{1,2})(?:\.[\w*-]{1,60}){0,3}\.[a-z][a-z0-9]{0,4}(?![\w.]*\w))
    """,
    re.VERBOSE,
)
_NOT_PATHS = re.compile(r"\d+/\d+(?:/\d+)?|and/or|w/.*|(?:[a-z]\.)+[a-z]", re.IGNORECASE)


@dataclass(frozen=True)
class HiddenText:
    """One hidden literal: what stood there, and what it means without its quotes."""

    kind: LiteralKind
    value: str
    raw: str


@dataclass(frozen=True)
class Literals:
    """The hidden literals of one message, by the character that stands for them."""

    found: tuple[HiddenText, ...] = ()

    def of(self, character: str) -> HiddenText:
        """Give the literal that a character stands for."""
        return self.found[ord(character) - _FIRST]

    def restore(self, text: str) -> str:
        """Put the literals back as they stood, quotes included, unless one is the whole text."""
        text = text.strip()
        if len(text) == 1 and _HIDDEN.fullmatch(text):
            return self.of(text).value
        return _HIDDEN.sub(lambda match: self.of(match.group()).raw, text)

    def in_text(self, text: str, *kinds: LiteralKind) -> list[tuple[str, HiddenText]]:
        """List the (character, literal) pairs of these kinds in a text, in order."""
        pairs = [(character, self.of(character)) for character in _HIDDEN.findall(text)]
        return [pair for pair in pairs if not kinds or pair[1].kind in kinds]


def hide_literals(text: str) -> tuple[str, Literals]:
    """Replace every literal of a text by one private-use character."""
    found: list[HiddenText] = []

    def hide(match: re.Match[str]) -> str:
        raw, kind, tail = match.group(), match.lastgroup or "", ""
        if kind in ("url", "email", "path"):
            value = raw.rstrip(".,;:!?)")
            raw, tail = value, raw[len(value) :]
            if kind == "path" and (_NOT_PATHS.fullmatch(raw) or not re.search(r"[\w*]", raw)):
                return match.group()
        else:
            value, kind = match.group(kind), "quoted"
        if _FIRST + len(found) > _LAST or not value.strip():
            return match.group()
        found.append(HiddenText(kind, value.strip(), raw))  # type: ignore[arg-type]
        return chr(_FIRST + len(found) - 1) + tail

    return _FIND.sub(hide, _HIDDEN.sub("", text)), Literals(tuple(found))
