"""Compile the rules' regular expressions alike: any case, any apostrophe, any white space."""

import re
from functools import lru_cache

NEVER = "(?!)"
"""A regular expression that matches nothing."""

# Rules look at this much of a clause: enough for any request, and quadratic patterns stay cheap.
CLAUSE_WINDOW = 600


@lru_cache(maxsize=4096)
def pattern(source: str) -> re.Pattern[str]:
    """Compile a rule in which a space stands for any white space and ' for either apostrophe."""
    pieces: list[str] = []
    in_class = False
    for character, following in zip(source, source[1:] + "\0", strict=True):
        in_class = character == "[" or (in_class and character != "]")
        if character == "'":
            pieces.append("'’" if in_class else "['’]")
        elif character == " " and not in_class:
            pieces.append(r"\s" if following in "*+?{" else r"\s+")
        else:
            pieces.append(character)
    return re.compile("".join(pieces), re.IGNORECASE)
