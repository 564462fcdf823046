"""Read a page from standard input and write its article, as `extraction` asks: one line of JSON, then the page.

The answer is `{"page": …}` or `{"failed": "says why …"}`. This is a process of its own; nothing else imports it.
"""

import ctypes
import json
import logging
import os
import signal
import sys
from typing import Any

from toolweave.nodes.script.reading.article import NoArticle, read_article

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


_PR_SET_PDEATHSIG = 1
_SPARE_S = 2
_NICENESS = 10


def main() -> None:
    """Answer the one request on standard input."""
    logging.disable(logging.CRITICAL)
    _die_with_parent()
    asked = json.loads(sys.stdin.buffer.readline())
    if resource is not None:
        _bound(resource.RLIMIT_CPU, int(asked["seconds"]) + _SPARE_S)
        _bound(resource.RLIMIT_AS, asked["memory"])
        # Pages that are read side by side must not keep the server, which started them, from answering.
        os.nice(_NICENESS)
    body = sys.stdin.buffer.read()
    answer: dict[str, Any]
    try:
        answer = {"page": read_article(body, asked["url"], asked["final_url"], asked["content_type"], asked["facts"])}
    except NoArticle as error:
        answer = {"failed": str(error)}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _bound(kind: int, most: int) -> None:
    """Lower a limit, unless it is lower already: it cannot be raised."""
    allowed = resource.getrlimit(kind)[1]
    least = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
    resource.setrlimit(kind, (least, least))


def _die_with_parent() -> None:
    """End when the parent is killed, where Linux can tell; elsewhere the bound of processor time ends this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
