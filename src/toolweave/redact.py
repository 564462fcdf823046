"""Take secrets out of values and texts that come from anywhere, before they are logged or shown (T-03).

Secrets are recognised by the name they are kept under and by their form: that hides too much rather than too little,
for what is hidden here is still where it came from. Others are known: `KnownSecrets` hides these, and nothing else.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from html import escape
from itertools import islice
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

HIDDEN = "***"
CUT = "…"
DEEPEST = 12
MOST_ITEMS = 1_000
LONGEST_TEXT = 8_192
MOST_TEXT = 65_536
# What is cut off may have cut a secret in two; so much of the beginning of one goes with it.
TAIL = 4_096
LARGEST_NUMBER = 1 << 256

Clean = Callable[[str], str]

_ANYWHERE = (
    *("password", "passwd", "passphrase", "secret", "credential", "authorization", "cookie"),
    *("apikey", "privatekey", "accesskey", "signingkey", "encryptionkey", "sessionid"),
)
_AT_THE_END = ("token", "pwd", "jwt", "bearer", "otp")
_IN_HEADERS = frozenset({"auth", "authentication", "session", "signature"})
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

_WORD = r"[^\s\"',;&}\])][^\s\"',;&}\])\\]*"
_KEPT_UNDER = (
    r"((?i:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|(?:api|private|access|secret|signing)[ _-]?key)"
    r"[\"'\\]{0,3}\s{0,3}[:=]\s{0,3})"
)
# A text in quotes, one in the escaped quotes of JSON within JSON, one in single quotes, or a word; a word that is a
# name itself goes with what is kept under it.
_KEPT = (
    rf"(?:{_WORD}(?<=[:=])\s{{1,3}})*"
    rf"(?:\"(?:[^\"\\\n]|\\.)*|\\+\"(?:[^\"\\\n]|\\+[^\"\\\n])*|'[^'\n]*|{_WORD})"
)
_PEM = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
_HEADER = r"\b((?i:authorization|(?:set-)?cookie)[\"'\\]{0,3}\s{0,3}[:=]\s{0,3}[\"'\\]{0,3})[^\r\n\"'\\]+"

# First what a text must hold, in lower case, to be searched at all: searching costs a thousand times as much. The order
# matters: what the later ones replace could be the name of what is kept under it.
_FORMS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (("private key-----",), re.compile(_PEM, re.DOTALL), HIDDEN),
    (("authorization", "cookie"), re.compile(_HEADER), rf"\1{HIDDEN}"),
    (
        ("passw", "passphrase", "pwd", "secret", "token", "credential", "key"),
        re.compile(_KEPT_UNDER + _KEPT),
        rf"\1{HIDDEN}",
    ),
    (("@",), re.compile(r"(?<=://)[^\s/?#\"'<>\\@]*(?:@[^\s/?#\"'<>\\@]*)*@"), f"{HIDDEN}@"),
    (("eyj",), re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"), HIDDEN),
    (("bearer", "digest"), re.compile(r"\b((?i:bearer|digest)\s+)[\w.~+/=-]{6,}"), rf"\1{HIDDEN}"),
    (("basic",), re.compile(r"\b((?i:basic)\s+)(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/]{8,}={0,2}"), rf"\1{HIDDEN}"),
    (("sk-", "sk_", "rk-", "rk_", "pk-", "pk_"), re.compile(r"\b(?:sk|rk|pk)[-_][\w-]{8,}"), HIDDEN),
    (
        ("gho_", "ghp_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hf_", "npm_", "pypi-"),
        re.compile(r"\b(?:gh[opusr]_|github_pat_|glpat-|xox[abeoprs]-|hf_|npm_|pypi-)[\w-]{10,}"),
        HIDDEN,
    ),
    (("akia", "asia", "aiza"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"), HIDDEN),
)


def redact(value: Any, clean: Clean | None = None) -> Any:
    """Return `value` as plain JSON values without secrets; bounded in depth, number of items and length of texts.

    What JSON has no type for becomes its type's name; a value may contain itself.

    Args:
        value: JSON values, or anything.
        clean: what else is to be done to every text and key, such as blanking known secrets.
    """
    return _Redactor(clean or str).plain(value, 0)


def redact_text(text: str, clean: Clean | None = None) -> str:
    """Return a text without what has the form of a secret or stands behind a name for one; cut to `LONGEST_TEXT`."""
    begun = text[:LONGEST_TEXT]
    if clean is not None:
        begun = clean(begun)
    lowered = begun.lower()
    for needles, form, instead in _FORMS:
        for needle in needles:  # quicker than any(): most texts have none
            if needle in lowered:
                begun = form.sub(instead, begun)
                break
    return begun if len(text) <= LONGEST_TEXT else begun[:-TAIL] + CUT


class KnownSecrets:
    """Hide secrets that are known, wherever they stand in texts and JSON values.

    Args:
        forms: texts and expressions to look for, in this order: one that holds another comes first.
    """

    def __init__(self, forms: Iterable[str | re.Pattern[str]]) -> None:
        self.forms = tuple(forms)

    def found_in(self, text: str) -> bool:
        """Say whether a text holds one of them."""
        return any(form in text if isinstance(form, str) else form.search(text) for form in self.forms)

    def hide(self, text: str) -> str:
        """Return a text without them."""
        for form in self.forms:
            text = text.replace(form, HIDDEN) if isinstance(form, str) else form.sub(HIDDEN, text)
        return text

    def hide_in(self, value: Any) -> Any:
        """Return JSON values without them, in keys too, and otherwise as they are."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide_in(key): self.hide_in(item) for key, item in value.items()}
        return [self.hide_in(item) for item in value] if isinstance(value, list) else value


def longest_first(texts: Iterable[str], shortest: int) -> list[str]:
    """Return the texts of at least `shortest` characters, each once: shorter ones stand in ordinary words, too."""
    return sorted({text for text in texts if len(text) >= shortest}, key=len, reverse=True)


def usual_forms(secret: str) -> list[str]:
    """Return a secret as it is and as it stands in JSON, in JSON within JSON, in URLs and in HTML, longest first."""
    encoded = [quote(secret, safe=safe, errors="replace") for safe in ("", "/")]
    encoded += [_PERCENT.sub(lambda found: found.group().lower(), encoded[0]), quote(encoded[0], safe="")]
    in_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    in_json += [in_json[0].replace("/", "\\/"), json.dumps(in_json[0])[1:-1]]
    in_json += [_ESCAPE.sub(lambda found: f"\\u{found[1].upper()}", in_json[0])]
    return longest_first([secret, escape(secret), quote_plus(secret, errors="replace"), *encoded, *in_json], 1)


def names_a_secret(key: str) -> bool:
    """Say whether what is kept under this name is one to hide: `X-Api-Key`, `clientSecret`, `access_token`."""
    plain = _NOT_IN_NAMES.sub("", key[:LONGEST_TEXT].lower())
    return plain.endswith(_AT_THE_END) or any(word in plain for word in _ANYWHERE)


def names_a_secret_header(name: str) -> bool:
    """Say the same of a header that is sent; here a key opens something: `Ocp-Apim-Subscription-Key`, `X-Auth`."""
    lowered = name.lower()
    return names_a_secret(name) or lowered.endswith("key") or not _IN_HEADERS.isdisjoint(_NOT_IN_NAMES.split(lowered))


class _Redactor:
    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._left = MOST_ITEMS
        self._text_left = MOST_TEXT

    def plain(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            return CUT
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, dict | list | tuple | set | frozenset):
            return CUT if depth >= DEEPEST else self._inside(value, depth + 1)
        if isinstance(value, UUID | date | Decimal | PurePath):
            return self._text(str(value))
        return f"<{type(value).__name__}>"

    def _inside(self, value: Any, depth: int) -> Any:
        # A slice taken at once: what is still in use elsewhere may change while it is gone through.
        room = max(self._left, 0)
        if isinstance(value, dict):
            pairs = list(islice(value.items(), room))
            told = {self._text(_name(key)): self._kept(key, item, depth) for key, item in pairs}
            return told if len(value) <= room else {**told, CUT: CUT}
        items = [self.plain(item, depth) for item in list(islice(value, room))]
        return items if len(value) <= room else [*items, CUT]

    def _kept(self, key: Any, item: Any, depth: int) -> Any:
        hidden = names_a_secret(_name(key)) and item is not None and not isinstance(item, bool)
        return HIDDEN if hidden else self.plain(item, depth)

    def _text(self, text: str) -> str:
        if self._text_left <= 0:
            return CUT
        self._text_left -= min(len(text), LONGEST_TEXT)
        return redact_text(text, self._clean)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"<{type(key).__name__}>"


def _number(value: float) -> Any:
    if isinstance(value, int):
        return value if -LARGEST_NUMBER < value < LARGEST_NUMBER else "<int>"
    return value if math.isfinite(value) else str(value)
