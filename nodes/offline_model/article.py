"""Read an article in markdown as its sentences under their headings (A-04)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from textwrap import wrap

from toolweave.nodes.spoken_length import spoken_seconds

_CONTINUED = " (continued)"
# Of three words, and of ninety.
_SHORTEST_S, _LONGEST_S = 1.2, 36.0
_LONGEST_PIECE = 300
_COLONS = (":", "：")


class Worth(IntEnum):
    """The kind of a text; a lower one is narrated only where there is nothing better."""

    PROSE = 5
    ITEM = 4
    FRAGMENT = 3
    HEADING = 2
    CODE = 1


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it stands in the article; `place` is its number there.

    `opens` is the first of its worth in its section; `leans` needs the one before it, `announces` ends in a colon and
    needs what follows.
    """

    place: int
    text: str
    worth: Worth
    opens: bool = False
    leans: bool = False
    announces: bool = False


@dataclass(slots=True)
class Part:
    """A section of the article; each image is its alt text and its caption."""

    heading: str
    sentences: list[Sentence] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Article:
    """An article; the title is empty where the prompt names none."""

    title: str
    parts: Sequence[Part]


def framed_article(prompt: str) -> str | None:
    """Return what stands between the marks of an article; None where there are none."""
    start, end = prompt.find("<article>"), prompt.rfind("</article>")
    return prompt[start + len("<article>") : end].strip("\n") if 0 <= start < end else None


# Lines

_HEADING = re.compile(r"#{1,6}[ \t]+(?P<text>\S.*)")
_FENCE = re.compile(r"[ \t]{0,3}(?P<marks>`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣·–]|\(?\d{1,3}[.)])[ \t]+(?P<text>\S.*)")
_IMAGE = re.compile(r"!\[(?P<alt>[^\[\]\n]*)\]\((?P<caption>.*)\)")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*")
_RULE = re.compile(r"[\s|:=*_-]*")
_QUOTED = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")
_INDENTED = re.compile(r"(?: {4}|\t)")
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")
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


def without_marks(text: str) -> str:
    """Return the words of a line or paragraph on one line, without the marks of markdown."""
    return " ".join(_MARKS.sub(_inside, text).split())


def _inside(found: re.Match[str]) -> str:
    if found["link"]:
        return _MARKS.sub(_inside, found["link"])
    return found["code"] or found["escaped"] or ""


def read_article(markdown: str) -> Article:
    """Read an article as prompts show it: `# title` first, `## heading` lines, images as `![alt](caption)`."""
    first, _, rest = markdown.partition("\n")
    titled = first.startswith("# ")
    title = " ".join(first[2:].split()) if titled else ""
    reader = _Reader((rest if titled else markdown).splitlines())
    if title:
        reader.parts[0].sentences.insert(0, Sentence(-1, title, Worth.HEADING, opens=True))
    return Article(title, reader.parts)


class _Reader:
    """Sort the lines into parts; `_held` is the paragraph or item that is being read."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.parts = [Part("")]
        self._place = 0
        self._captions: set[str] = set()
        self._held: list[str] = []
        self._worth = Worth.PROSE
        fence = ""
        for place, line in enumerate(lines):
            marks = _FENCE.match(line)
            if fence or marks:
                self._end_paragraph()
                if marks and (not fence or line.strip().startswith(fence)):
                    fence = "" if fence else marks["marks"]
                else:
                    self._add(line.rstrip(), Worth.CODE)
            elif found := _HEADING.fullmatch(line):
                self._end_paragraph()
                self._start_part(without_marks(found["text"]))
                fence = "```" if line.endswith(_CONTINUED) and _begins_in_code(lines, place + 1) else ""
            elif not self._stands_alone(line):
                self._read_words(line)
        self._end_paragraph()

    def _start_part(self, heading: str) -> None:
        named = heading.removesuffix(_CONTINUED)
        if named != self.parts[-1].heading or not heading.endswith(_CONTINUED):
            self.parts.append(Part(named))
            self._add(named, Worth.HEADING)

    def _stands_alone(self, line: str) -> bool:
        """Read an image, a row of a table, a rule or an indented line of code."""
        bare = line.strip()
        item = _ITEM.fullmatch(bare)
        if image := _IMAGE.fullmatch(item["text"].strip() if item else bare):
            self._end_paragraph()
            alt, caption = without_marks(image["alt"]), without_marks(image["caption"])
            self._captions.add(caption)
            if alt or caption:
                self.parts[-1].images.append((alt, caption))
                self._add(caption or alt, Worth.FRAGMENT)
        elif _ROW.fullmatch(line) and bare != "|":
            self._end_paragraph()
            cells = [without_marks(cell) for cell in bare.strip("|").split("|")]
            self._add(", ".join(cell for cell in cells if not _RULE.fullmatch(cell)), Worth.FRAGMENT)
        elif bare and _RULE.fullmatch(bare):
            self._end_paragraph()
        elif bare and not self._held and self._worth is Worth.PROSE and _INDENTED.match(line):
            self._add(line.rstrip(), Worth.CODE)
        else:
            return False
        return True

    def _read_words(self, line: str) -> None:
        """Hold a line of text; an empty one ends what is held, and what is indented below an item belongs to it."""
        if not line.strip():
            self._end_paragraph()
        elif found := _ITEM.fullmatch(line):
            self._end_paragraph()
            self._held, self._worth = [found["text"].strip()], Worth.ITEM
        else:
            if not self._held and not _INDENTED.match(line):
                self._worth = Worth.PROSE
            self._held.append(_QUOTED.sub("", line).strip())

    def _end_paragraph(self) -> None:
        """Divide what is held into sentences."""
        text = ""
        for line in self._held:
            near = text[-1:] + line[:1]
            text += line if not text or all(map(_WIDE.match, near)) else f" {line}"
        self._held = []
        text, before = without_marks(text), ""
        for sentence in sentences_of(text) if text not in self._captions else ():
            if not is_of_the_page(sentence):
                self._add(sentence, self._worth_of(sentence), before)
            before = sentence

    def _worth_of(self, sentence: str) -> Worth:
        """Return the worth of the paragraph for a whole sentence that is understood without seeing the page."""
        if (
            not _SHORTEST_S <= spoken_seconds([sentence]) <= _LONGEST_S
            or not _WHOLE.search(sentence[-_REACH:])
            or _POINTING.search(sentence[:2_000])
        ):
            return Worth.FRAGMENT
        sentences = self.parts[-1].sentences
        if self._worth is Worth.ITEM and sentences and sentences[-1].worth is Worth.FRAGMENT:
            # After a term that it explains an item cannot be narrated; what announces a list of sentences can.
            if sentences[-1].text.endswith(_COLONS):
                sentences[-1] = replace(sentences[-1], worth=Worth.ITEM, announces=True)
            elif spoken_seconds([sentences[-1].text]) < _SHORTEST_S:
                return Worth.FRAGMENT
        return self._worth

    def _add(self, text: str, worth: Worth, before: str = "") -> None:
        sentences = self.parts[-1].sentences
        # What is far too long for a sentence is cut, so that a part of it can be narrated.
        cut = [text] if worth >= Worth.ITEM else wrap(text, _LONGEST_PIECE, break_on_hyphens=False)
        for piece in (one for one in cut if any(map(str.isalnum, one))):
            opens = not any(sentence.worth is worth for sentence in sentences)
            leaning = leans(piece, before) or (bool(sentences) and sentences[-1].announces and worth is Worth.ITEM)
            sentences.append(Sentence(self._place, piece, worth, opens=opens, leans=leaning))
            self._place += 1


def _begins_in_code(lines: Sequence[str], start: int) -> bool:
    """Say of a section that was divided, from `start` on, whether it was divided in the middle of code."""
    fences = 0
    # Not a slice: a page may have 100 000 headings.
    for place in range(start, len(lines)):
        line = lines[place]
        if _HEADING.fullmatch(line) and fences % 2 == 0:
            break
        fences += bool(_FENCE.match(line))
    return fences % 2 == 1


# Sentences

_WITH_FULL_STOPS = """
mr mrs ms sr jr dr prof rev hon gen col capt lt sgt gov sen rep st mt ft vs no nos fig figs eq sec ch vol pp ed eds
approx est dept jan feb mar apr jun jul aug sep sept oct nov dec e.g i.e cf al viz resp incl
bzw ca evtl ggf inkl nr str sog vgl zzgl mio mrd tsd abs art bspw d.h z.b u.a s.o s.u hr fr usf geb gest ing mag
mm mme mmes mlle me av env p.ex sra srta sres ud uds p.ej núm pág págs aprox avda tel sig dott avv pag
bijv o.a d.w.z mw dhr t.ex bl.a m.m f.eks np tzn tj ul гг ул рис стр тыс руб им т.е т.д
"""
_ABBREVIATIONS = frozenset(_WITH_FULL_STOPS.split())
_GERMAN_MONTHS = "januar februar märz april mai juni juli august september oktober november dezember"
_MONTHS = frozenset(_GERMAN_MONTHS.split())
_GERMAN_ARTICLES = "am der dem den die das des vom zum zur beim im ins bis ab"
_BEFORE_ORDINALS = frozenset(_GERMAN_ARTICLES.split())
_CLOSERS = "\"'”’»«“›‹)\\]"
# There is one way only to read a row of marks or quotes: each begins where no other does.
_END = re.compile(
    rf"(?<![.!?…؟۔।])(?P<mark>[.!?…؟۔।]+)(?:[\u00a0\u202f ]»|[{_CLOSERS}])*(?=\s|\Z)"
    r"|(?P<wide>[。！？｡]+)(?P<closed>[」』”’）】〉》\"]*)"
)
_TOKEN = re.compile(r"[^\s\"'“”„‚‘’«»()\[\]]+\Z")
_PREVIOUS = re.compile(r"(\w+)\W+\Z")
_NEXT = re.compile(r"\s*[\"'“”„‚‘’«»‹›(\[¿¡\-–—\u00a0\u202f ]{0,4}(?P<word>\w*)")
# What goes on after words that were quoted with their full stop.
_GOES_ON = re.compile(r"と|って|という|など|[，,、]|.{0,6}(?:说|說|道|问|問|喊|表示|写道)")
_WHOLE = re.compile(r"[.!?…؟۔।。！？｡](?:[\u00a0\u202f ]»|[\"'”’»«“›‹)\]」』）】〉》])*\Z")
_REACH = 60


def sentences_of(paragraph: str) -> Iterator[str]:
    """Yield the sentences in order, what has no end last; joined, they are the paragraph but for spaces."""
    start = 0
    for found in _END.finditer(paragraph):
        if _ends(paragraph, found):
            if sentence := paragraph[start : found.end()].strip():
                yield sentence
            start = found.end()
    if rest := paragraph[start:].strip():
        yield rest


def _ends(paragraph: str, found: re.Match[str]) -> bool:
    end = found.end()
    if end >= len(paragraph):
        return True
    if found["wide"]:
        return not (found["closed"] and _GOES_ON.match(paragraph, end))
    following = _NEXT.match(paragraph, end)
    word = following["word"] if following else ""
    if word[:1].islower():
        return False
    return found["mark"] != "." or not _is_abbreviated(paragraph[max(found.start() - _REACH, 0) : found.start()], word)


def _is_abbreviated(before: str, following: str) -> bool:
    """Say of a full stop whether it belongs to the word before it: an abbreviation, an initial, an ordinal."""
    found = _TOKEN.search(before)
    token = found[0].lower() if found else ""
    if token in _ABBREVIATIONS or "." in token:
        return not all(part.isdecimal() for part in token.replace(",", ".").split(".") if part)
    if len(token) == 1 and token.isalpha():
        return True
    if not token.isdecimal() or len(token) > 2 or found is None:
        return False
    previous = _PREVIOUS.search(before[: found.start()])
    return following.lower() in _MONTHS or bool(previous and previous[1].lower() in _BEFORE_ORDINALS)


_POINTING_BACK = """
he she it they this that these those such his her their its each both neither but and so yet then however therefore
also because otherwise instead moreover thus hence meanwhile afterwards nevertheless still or
er sie es dies diese dieser dieses dabei dann dadurch deshalb daher doch aber und damit danach davon dazu
il elle ils elles ce cela ces cette mais et donc ainsi puis él ella ellos esto eso pero y entonces
ma quindi poi ele ela isso mas então он она оно они это но и а hij zij dit deze maar
"""
_LEANING = frozenset(_POINTING_BACK.split())
_LEANING_STARTS = re.compile(
    r"(?:それ|これ|この|その|そこで|そして|しかし|また|だから|けれど|でも|さらに|他们|她们|他|她|它|这|那|但|而且|因此|所以|然后)"
)
_OPENING_MARKS = "\"'“”„«»「『（([¿¡ \u00a0\u202f"
_QUOTES = ("“", "„", "«", "»", "「", "『", '"')
_FIRST_WORD = re.compile(r"\w+(?:['’]\w+)?")
_OF_THE_PAGE = re.compile(
    r"(?i:(?:read|see|learn) (?:more|also|next|on)\b|(?:click|tap) (?:here|on)\b|sign up\b|subscribe\b|follow us\b"
    r"|share this\b|log in\b|advertisement|sponsored\b|photo(?:graph)?s?(?: by|:)|images?(?: credit| by)?:"
    r"|credits?:|sources?:|(?:last )?(?:updated|published|posted)(?: on| by|:)|originally (?:published|appeared)"
    r"|this (?:article|post|story) (?:was|first|originally|appeared)|related:|tags?:|all rights reserved|copyright\b|©"
    r"|lesen sie (?:auch|mehr)|mehr zum thema|hier klicken|fotos?:|bild:|quellen?:|jetzt abonnieren|anzeige\b"
    r"|(?:à )?lire aussi|voir aussi|crédits?(?: photo)?\s?:|leer más|lea también|leggi anche|leia também|lees ook"
    r"|читайте также|фото:|источник:|関連記事|続きを読む|写真[：:/]|出典[：:]|阅读更多|延伸阅读|图片来源)"
    r"|(?:By|Von|Par|Por|Di) [A-ZÀ-Þ][\w.'’-]+(?: [A-ZÀ-Þ][\w.'’-]+){1,3}\W*\Z"
)
_ANYWHERE = re.compile(r"(?i:\bread more about\b|\bour newsletter\b|\bcookie (?:policy|settings)\b|https?://|www\.)|©")
_POINTING = re.compile(
    r"(?i:\b(?:the|this) (?:table|figure|listing|diagram|screenshot|chart|code|example|list)\b"
    r" (?:below|above|shows?|lists?)"
    r"|\b(?:see|as shown|shown|described|listed) (?:below|above|here)\b|\b(?:following|below)[.:]"
    r"|\b(?:die|diese) (?:tabelle|abbildung|grafik)\b (?:zeigt|unten|oben)|次の(?:表|図)|下の(?:表|図)|如下|下图)"
)


def leans(sentence: str, before: str = "") -> bool:
    """Say whether a sentence is hard to understand without the one `before` it, "" where there is none."""
    bare = sentence.lstrip(_OPENING_MARKS)
    first = _FIRST_WORD.match(bare)
    if _LEANING_STARTS.match(bare) or (first and first[0].lower() in _LEANING):
        return True
    return sentence.startswith(_QUOTES) and before.startswith(_QUOTES)


def is_of_the_page(sentence: str) -> bool:
    """Say whether a sentence is a byline, a credit, or an invitation to click: nothing of the subject."""
    head = sentence.lstrip(_OPENING_MARKS)[:2_000]
    return bool(_OF_THE_PAGE.match(head) or _ANYWHERE.search(head))
