"""Put errors into words for the person at the terminal: one paragraph that says what is wrong and what to do."""

from toolweave.errors import (
    ConfigError,
    DataFolderLocked,
    FetchFailed,
    ModelError,
    NewerSchema,
    PersistenceError,
    RequestError,
    ScriptFailed,
    ScriptNotKept,
    SignInFailed,
    TokenStoreError,
    ToolError,
    ToolweaveError,
)

# How the paragraph begins; the nearest class counts. The error's own text names the file or setting and the fix.
HEADLINES: dict[type[ToolweaveError], str] = {
    ConfigError: "Configuration error",
    DataFolderLocked: "Data folder in use",
    NewerSchema: "Database too new",
    PersistenceError: "Database error",
    ModelError: "Model error",
    ToolError: "MCP server error",
    FetchFailed: "Fetch failed",
    ScriptFailed: "Script failed",
    ScriptNotKept: "Script not kept",
    SignInFailed: "Sign-in failed",
    TokenStoreError: "Token store error",
    RequestError: "Request refused",
    ToolweaveError: "Error",
}


def explain(error: BaseException) -> str | None:
    """Say what is wrong and what to do, on one line; None for an error that nobody foresaw."""
    if not isinstance(error, ToolweaveError):
        return None
    headline = next(HEADLINES[cls] for cls in type(error).__mro__ if cls in HEADLINES)
    return _harmless(" ".join(f"{headline}: {error}".split()))


def _harmless(text: str) -> str:
    """Replace what commands a terminal: an error may quote a page, a server or a model. Joiners stay."""
    return "".join(each if each.isprintable() or each in "\u200c\u200d" else "�" for each in text)
