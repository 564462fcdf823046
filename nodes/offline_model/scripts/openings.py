"""Tell by how a sentence begins whether it needs the one before it, and whether it speaks of the page, not the subject.

The words are those of several languages at once: an article's language is not always told.
"""

import re

_NEEDING = """
he she it they this that these those such his her their its each both neither but and so yet then however therefore
also because otherwise instead moreover thus hence meanwhile afterwards nevertheless still or
er sie es dies diese dieser dieses dessen deren dabei dann dadurch deshalb daher dennoch doch aber und damit danach
davon dazu darum dafür dagegen trotzdem außerdem zudem jedoch ihr ihre sein seine beide sonst
il elle ils elles ce cela c’est c'est ces cette ceci mais et donc ainsi puis alors ensuite cependant pourtant leur leurs
celui celle ceux
él ella ello ellos ellas esto eso ese esa esos pero y entonces luego además embargo aunque sus
ma lui lei loro questo questa questi queste quindi poi allora inoltre
ele ela eles elas isso isto esse essa mas então também porém
он она оно они это эти этот эта но и а поэтому затем потом однако
hij zij dit deze maar ook daarom dus toch
"""
_LEANING = frozenset(_NEEDING.split())
_LEANING_STARTS = re.compile(
    r"(?:それ|これ|この|その|そこで|そして|しかし|また|だから|ですが|けれど|でも|つまり|さらに"
    r"|他们|她们|它们|他|她|它|这|那|但|而且|因此|所以|然后|同时|此外|這|所以)"
)
_OPENING_MARKS = "\"'“„«»‹「『（([¿¡ \u00a0\u202f"
_QUOTES = ("“", "„", "«", "»", "「", "『", '"')
_FIRST_WORD = re.compile(r"\w+(?:['’]\w+)?")

_OF_THE_PAGE = re.compile(
    r"(?i:(?:read|see|learn) (?:more|also|next|on)\b|(?:click|tap) (?:here|on)\b|sign up\b|subscribe\b|follow us\b"
    r"|share this\b|join our\b|log in\b|advertisement|sponsored\b|photo(?:graph)?s?(?: by|:)|images?(?: credit| by)?:"
    r"|credits?:|sources?:|via:|(?:last )?(?:updated|published|posted)(?: on| by|:)|originally (?:published|appeared)"
    r"|this (?:article|post|story) (?:was|first|originally|appeared)|listen to this\b|watch:|related:|tags?:"
    r"|table of contents|all rights reserved|copyright\b|©"
    r"|lesen sie (?:auch|mehr)|mehr zum thema|hier klicken|fotos?:|bild:|quellen?:|foto von|jetzt abonnieren|anzeige\b"
    r"|(?:à )?lire aussi|voir aussi|lire la suite|crédits?(?: photo)?\s?:|photo\s?:|source\s?:|abonnez-vous|cliquez"
    r"|leer más|lea también|ver también|foto de|fuentes?:|suscríbete|haga clic|leggi anche|leia também|lees ook"
    r"|читайте также|фото:|источник:|подпишитесь"
    r"|関連記事|続きを読む|写真[：:/]|出典[：:]|閱讀更多|阅读更多|延伸阅读|图片来源|来源[：:]|點擊|点击)"
    r"|(?:By|Von|Par|Por|Di) [A-ZÀ-Þ][\w.'’-]+(?: [A-ZÀ-Þ][\w.'’-]+){1,3}\W*\Z"
)
_ANYWHERE = re.compile(
    r"(?i:\bread more about\b|\ball rights reserved\b|\bour newsletter\b|\bcookie (?:policy|settings)\b|https?://|www\.)"
    r"|©"
)
_POINTING = re.compile(
    r"(?i:\b(?:the|this) (?:table|figure|listing|diagram|screenshot|chart|code|example|list)\b"
    r" (?:below|above|shows?|lists?)"
    r"|\b(?:see|as shown|shown|described|listed) (?:below|above|here)\b|\b(?:following|below)[.:]"
    r"|\b(?:die|diese) (?:tabelle|abbildung|grafik)\b (?:zeigt|unten|oben)|\b(?:siehe|wie) (?:oben|unten)\b"
    r"|\bci-dessous\b|\bci-dessus\b|\bla siguiente (?:tabla|figura)\b|次の(?:表|図)|下の(?:表|図)|下表|如下|下图)"
)
_REACH = 2_000


def leans(sentence: str, before: str = "") -> bool:
    """Tell whether a sentence is hard to understand without the one `before` it, "" where there is none."""
    bare = sentence.lstrip(_OPENING_MARKS)
    first = _FIRST_WORD.match(bare)
    if _LEANING_STARTS.match(bare) or (first and first[0].lower() in _LEANING):
        return True
    return sentence.startswith(_QUOTES) and before.startswith(_QUOTES)


def is_of_the_page(sentence: str) -> bool:
    """Tell whether a sentence is a byline, a credit, or an invitation to click: nothing of the subject."""
    head = sentence.lstrip(_OPENING_MARKS)[:_REACH]
    return bool(_OF_THE_PAGE.match(head) or _ANYWHERE.search(head))


def points_elsewhere(sentence: str) -> bool:
    """Tell whether a sentence points to a table, an image or code, which nobody hears."""
    return bool(_POINTING.search(sentence[:_REACH]))
