"""Read a page from standard input and write its article, as `extraction` asks: one line of JSON, then the page.

The answer is `{"page": …}` or `{"failed": "says why …"}`. This is a process of its own; nothing else imports it.
"""

import json
import logging
import sys
from typing import Any

from toolweave.nodes.script.article import NoArticle, read_article

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def main() -> None:
    """Answer the one request on standard input."""
    logging.disable(logging.CRITICAL)
    asked = json.loads(sys.stdin.buffer.readline())
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (asked["memory"], asked["memory"]))
    body = sys.stdin.buffer.read()
    answer: dict[str, Any]
    try:
        answer = {"page": read_article(body, asked["url"], asked["final_url"], asked["content_type"], asked["facts"])}
    except NoArticle as error:
        answer = {"failed": str(error)}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
