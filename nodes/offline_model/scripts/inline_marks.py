"""Take the marks of markdown out of a line, so that it can be spoken: emphasis, links, code marks, footnotes."""

import re

_MARKS = re.compile(
    r"(?P<fence>`{1,3})(?P<code>[^`\n]{1,500})(?P=fence)"
    r"|!\[[^\[\]\n]{0,500}\]\([^()\n]{0,1000}\)"
    r"|\[\^?\d{1,4}\](?!\()|\[\^[\w-]{1,40}\]"
    r"|\[(?P<link>[^\[\]\n]{1,500})\](?:\((?:[^()\s]|\([^()\s]{0,300}\)){0,1000}"
    r"(?:[ \t]+\"[^\"\n]{0,300}\")?\)|\[[^\[\]\n]{0,100}\])"
    r"|</?[A-Za-z](?![A-Za-z]{0,10}:/)[^<>\n]{0,200}>"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|\*{1,3}(?=\S)|(?<=\S)\*{1,3}|~~"
    r"|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)"
)
_SPACE = re.compile(r"\s+")


def without_marks(text: str) -> str:
    """Give the words of a line or paragraph on one line, all else as it stands."""
    return _SPACE.sub(" ", _MARKS.sub(_inside, text)).strip()


def _inside(found: re.Match[str]) -> str:
    if found["link"]:
        return _MARKS.sub(_inside, found["link"])
    return found["code"] or found["escaped"] or ""
