"""Serve a small HTTP API for the demo: a town library that knows nothing of Toolweave nor of MCP."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Body, Depends, FastAPI, HTTPException, Query
from fastapi.responses import FileResponse
from fastapi.security import APIKeyHeader

KEY = "demo-library-key"
PAGE = Path(__file__).with_name("demo_page.html")
BOOKS: dict[int, dict[str, Any]] = {
    1: {"id": 1, "title": "Around the World in Eighty Days", "author": "Jules Verne", "available": True},
    2: {"id": 2, "title": "Middlemarch", "author": "George Eliot", "available": True},
    3: {"id": 3, "title": "The Mysterious Island", "author": "Jules Verne", "available": False},
}


def library() -> FastAPI:
    app = FastAPI(title="Library", version="1")
    key = APIKeyHeader(name="X-Library-Key", scheme_name="library_key")

    @app.get("/books", operation_id="search_books", summary="Search books")
    async def search_books(
        author: Annotated[str | None, Query(description="Name of the author")] = None,
    ) -> list[dict[str, Any]]:
        """Search the books of the library, also by author."""
        return [book for book in BOOKS.values() if author is None or author.lower() in book["author"].lower()]

    @app.get("/books/{book_id}", operation_id="get_book", summary="Get a book")
    async def get_book(book_id: int) -> dict[str, Any]:
        """Get one book by its number."""
        return _book(book_id)

    @app.post("/loans", operation_id="lend_book", summary="Lend a book", status_code=201)
    async def lend_book(
        book_id: Annotated[int, Body(description="Number of the book")],
        reader: Annotated[str, Body(description="Name of the reader")],
        shown_key: Annotated[str, Depends(key)],
    ) -> dict[str, Any]:
        """Lend a book to a reader."""
        if shown_key != KEY:
            raise HTTPException(401, "The library does not know this key.")
        if not _book(book_id)["available"]:
            raise HTTPException(409, f"Book {book_id} is lent already.")
        return {"book": _book(book_id)["title"], "reader": reader, "days": 14}

    @app.get("/news/boat", include_in_schema=False)
    async def news() -> FileResponse:
        return FileResponse(PAGE, media_type="text/html")

    return app


def _book(book_id: int) -> dict[str, Any]:
    if book_id not in BOOKS:
        raise HTTPException(404, f"The library has no book {book_id}.")
    return BOOKS[book_id]


@contextlib.contextmanager
def serving_library() -> Iterator[str]:
    """Serve the library on a free port of this machine and give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(library(), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],), name="library", daemon=True)
        thread.start()
        try:
            yield "http://127.0.0.1:{}".format(*listening.getsockname()[1:])
        finally:
            server.should_exit = True
            thread.join(10)
