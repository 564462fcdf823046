"""Remove secrets from values and texts of any origin before they are logged or shown (T-03).

`redact` detects secrets by their key and by their form. It hides too much rather than too little, because the original
value still exists at its source. `KnownSecrets` hides known secrets only.
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
CUT_MARK = "…"
MAX_DEPTH = 12
MAX_ITEMS = 1_000
MAX_CHARS = 8_192
MAX_TOTAL_CHARS = 65_536
# A cut can split a secret, so this many characters before the cut are removed, too.
CUT_MARGIN_CHARS = 4_096
MAX_INTEGER = 1 << 256

TextFilter = Callable[[str], str]

_SECRET_WORDS = (
    *("password", "passwd", "passphrase", "secret", "credential", "authorization", "cookie"),
    *("apikey", "privatekey", "accesskey", "signingkey", "encryptionkey", "sessionid"),
)
_SECRET_SUFFIXES = ("token", "pwd", "jwt", "bearer", "otp")
_HEADER_WORDS = frozenset({"auth", "authentication", "session", "signature"})
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

_WORD = r"[^\s\"',;&}\])][^\s\"',;&}\])\\]*"
_SENSITIVE_NAME = (
    r"((?i:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|(?:api|private|access|secret|signing)[ _-]?key)"
    r"[\"'\\]{0,3}\s{0,3}[:=]\s{0,3})"
)
# A text in quotes, one in the escaped quotes of JSON within JSON, one in single quotes, or a word; a word that is a
# name itself is hidden together with its value.
_SENSITIVE_VALUE = (
    rf"(?:{_WORD}(?<=[:=])\s{{1,3}})*"
    rf"(?:\"(?:[^\"\\\n]|\\.)*|\\+\"(?:[^\"\\\n]|\\+[^\"\\\n])*|'[^'\n]*|{_WORD})"
)
_PEM = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
_HEADER = r"\b((?i:authorization|(?:set-)?cookie)[\"'\\]{0,3}\s{0,3}[:=]\s{0,3}[\"'\\]{0,3})[^\r\n\"'\\]+"

# First the substrings, in lower case, one of which a text must contain to be searched: a search costs a thousand times
# as much. The order matters: a later pattern could replace the key of a secret that an earlier one has to find.
_SECRET_FORMS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (("private key-----",), re.compile(_PEM, re.DOTALL), HIDDEN),
    (("authorization", "cookie"), re.compile(_HEADER), rf"\1{HIDDEN}"),
    (
        ("passw", "passphrase", "pwd", "secret", "token", "credential", "key"),
        re.compile(_SENSITIVE_NAME + _SENSITIVE_VALUE),
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


def redact(value: Any, clean: TextFilter | None = None) -> Any:
    """Return `value` as plain JSON values without secrets, with limited depth, number of items and length of texts.

    A value without a JSON type becomes its type's name. A value may contain itself.

    Args:
        value: any value.
        clean: applied to every text and key, for example to hide known secrets.
    """
    return _Redactor(clean or str).to_plain(value, 0)


def redact_text(text: str, clean: TextFilter | None = None) -> str:
    """Return a text, cut to `MAX_CHARS`, without texts in the form of a secret and without values of secret names."""
    result = text[:MAX_CHARS]
    if clean is not None:
        result = clean(result)
    lowered = result.lower()
    for needles, form, replacement in _SECRET_FORMS:
        for needle in needles:  # quicker than any(): most texts have none
            if needle in lowered:
                result = form.sub(replacement, result)
                break
    return result if len(text) <= MAX_CHARS else result[:-CUT_MARGIN_CHARS] + CUT_MARK


class KnownSecrets:
    """Hides known secrets anywhere in texts and JSON values.

    Args:
        forms: texts and patterns to search for, in this order: one that contains another comes first.
    """

    def __init__(self, forms: Iterable[str | re.Pattern[str]]) -> None:
        self.forms = tuple(forms)

    def occur_in(self, text: str) -> bool:
        """Return whether a text contains one of the secrets."""
        return any(form in text if isinstance(form, str) else form.search(text) for form in self.forms)

    def hide(self, text: str) -> str:
        """Return a text without the secrets."""
        for form in self.forms:
            text = text.replace(form, HIDDEN) if isinstance(form, str) else form.sub(HIDDEN, text)
        return text

    def hide_in_json(self, value: Any) -> Any:
        """Return JSON values without the secrets in texts and keys, otherwise unchanged."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide_in_json(key): self.hide_in_json(item) for key, item in value.items()}
        return [self.hide_in_json(item) for item in value] if isinstance(value, list) else value


def sort_longest_first(texts: Iterable[str], min_length: int) -> list[str]:
    """Return the unique texts, longest first, without those under `min_length`, which also occur in ordinary words."""
    return sorted({text for text in texts if len(text) >= min_length}, key=len, reverse=True)


def encoded_forms(secret: str) -> list[str]:
    """Return a secret as it is and encoded for JSON, JSON within JSON, URLs and HTML, longest first."""
    encoded = [quote(secret, safe=safe, errors="replace") for safe in ("", "/")]
    encoded += [_PERCENT.sub(lambda found: found.group().lower(), encoded[0]), quote(encoded[0], safe="")]
    in_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    in_json += [in_json[0].replace("/", "\\/"), json.dumps(in_json[0])[1:-1]]
    in_json += [_ESCAPE.sub(lambda found: f"\\u{found[1].upper()}", in_json[0])]
    return sort_longest_first([secret, escape(secret), quote_plus(secret, errors="replace"), *encoded, *in_json], 1)


def is_secret_name(key: str) -> bool:
    """Return whether a key or parameter name denotes a secret: `X-Api-Key`, `clientSecret`, `access_token`."""
    to_plain = _NOT_IN_NAMES.sub("", key[:MAX_CHARS].lower())
    return to_plain.endswith(_SECRET_SUFFIXES) or any(word in to_plain for word in _SECRET_WORDS)


def is_secret_header_name(name: str) -> bool:
    """Return whether a request header denotes a secret; more names count: `Ocp-Apim-Subscription-Key`, `X-Auth`."""
    lowered = name.lower()
    return is_secret_name(name) or lowered.endswith("key") or not _HEADER_WORDS.isdisjoint(_NOT_IN_NAMES.split(lowered))


class _Redactor:
    def __init__(self, clean: TextFilter) -> None:
        self._clean = clean
        self._items_left = MAX_ITEMS
        self._chars_left = MAX_TOTAL_CHARS

    def to_plain(self, value: Any, depth: int) -> Any:
        self._items_left -= 1
        if self._items_left < 0:
            return CUT_MARK
        if isinstance(value, str):
            return self._plain_text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _plain_number(value)
        if isinstance(value, dict | list | tuple | set | frozenset):
            return CUT_MARK if depth >= MAX_DEPTH else self._plain_container(value, depth + 1)
        if isinstance(value, UUID | date | Decimal | PurePath):
            return self._plain_text(str(value))
        return f"<{type(value).__name__}>"

    def _plain_container(self, value: Any, depth: int) -> Any:
        # Copy a slice first: other code may change the value during the iteration.
        room = max(self._items_left, 0)
        if isinstance(value, dict):
            pairs = list(islice(value.items(), room))
            entries = {self._plain_text(_key_text(key)): self._plain_entry(key, item, depth) for key, item in pairs}
            return entries if len(value) <= room else {**entries, CUT_MARK: CUT_MARK}
        items = [self.to_plain(item, depth) for item in list(islice(value, room))]
        return items if len(value) <= room else [*items, CUT_MARK]

    def _plain_entry(self, key: Any, item: Any, depth: int) -> Any:
        hidden = is_secret_name(_key_text(key)) and item is not None and not isinstance(item, bool)
        return HIDDEN if hidden else self.to_plain(item, depth)

    def _plain_text(self, text: str) -> str:
        if self._chars_left <= 0:
            return CUT_MARK
        self._chars_left -= min(len(text), MAX_CHARS)
        return redact_text(text, self._clean)


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else f"<{type(key).__name__}>"


def _plain_number(value: float) -> Any:
    if isinstance(value, int):
        return value if -MAX_INTEGER < value < MAX_INTEGER else "<int>"
    return value if math.isfinite(value) else str(value)
