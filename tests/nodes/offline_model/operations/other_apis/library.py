"""A town library: books, loans, readers."""

from tests.nodes.offline_model.operations.other_apis.operations import flag, one_of, operation, text, whole

BOOK = {"book_id": whole("Number of the book")}
GENRE = one_of("novel", "poetry", "science", "history", "children")

LIBRARY = (
    operation(
        "search_books",
        "GET /books",
        "Search the books of the library, also by author.",
        author=text("Name of the author"),
        title=text("Words of the title"),
        genre=GENRE,
        available=flag("Only books that are not lent"),
        limit=whole("At most so many books", minimum=1, maximum=100),
    ),
    operation("get_book", "GET /books/{book_id}", "Get one book by its number.", BOOK),
    operation(
        "lend_book",
        "POST /loans",
        "Lend a book to a reader.",
        BOOK | {"reader": text("Name of the reader")},
        weeks=whole("For how many weeks", minimum=1, maximum=8),
    ),
    operation("return_book", "POST /books/{book_id}/return", "Take back a lent book.", BOOK),
    operation(
        "list_loans",
        "GET /loans",
        "List what is lent at the moment.",
        reader=text("Only the loans of this reader"),
        overdue=flag("Only loans that are overdue"),
    ),
    operation(
        "reserve_book",
        "POST /reservations",
        "Reserve a lent book for a reader.",
        BOOK | {"reader": text("Name of the reader")},
    ),
    operation(
        "register_reader",
        "POST /readers",
        "Register a new reader.",
        {"name": text("Full name"), "email": text("Where letters go", format="email")},
    ),
    operation("remove_reader", "DELETE /readers/{reader_id}", "Remove a reader.", {"reader_id": whole()}),
)
