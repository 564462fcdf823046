"""Say why a file is not shown, never with a path: what lies outside the roots stays unknown (C-05)."""

import errno

from toolweave.servers.error_codes import (
    ACCESS_DENIED,
    FORBIDDEN_PATH,
    INVALID_PARAMETER,
    NOT_CONFIGURED,
    NOT_FOUND,
    NOT_TEXT,
    UNAVAILABLE,
    ToolFailed,
)

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
_DENIED = {errno.EACCES, errno.EPERM}


def outside(root_names: tuple[str, ...]) -> ToolFailed:
    """Refuse a path that leads out of the roots, whether anything is there or not."""
    advice = (
        f"Begin the path with one of: {', '.join(root_names)}."
        if len(root_names) > 1
        else "Use a path relative to the root, as search_files answers it."
    )
    return ToolFailed(FORBIDDEN_PATH, "The path is not within the folders that may be read.", advice)


def missing() -> ToolFailed:
    """Refuse what does not exist, or is hidden by an ignore rule: both sound alike."""
    return ToolFailed(
        NOT_FOUND, "There is no such file or folder.", "Find the right path with search_files, pattern '*name*'."
    )


def special_file() -> ToolFailed:
    """Refuse pipes, devices and sockets, and what a kernel makes up."""
    return ToolFailed(NOT_TEXT, "The path is not a regular file, such as a pipe or a device.")


def is_folder() -> ToolFailed:
    """Refuse to read a folder as a file."""
    return ToolFailed(
        INVALID_PARAMETER,
        "Parameter 'path' must be a file; this is a folder.",
        "See what is in it with search_files, the folder as its directory.",
    )


def not_text() -> ToolFailed:
    """Refuse bytes that are no text."""
    return ToolFailed(NOT_TEXT, "The file is not text: it is neither UTF-8, nor UTF-16 with a byte order mark.")


def no_roots() -> ToolFailed:
    """Refuse every call while the operator has allowed no folder."""
    return ToolFailed(NOT_CONFIGURED, "No folder may be read: TOOLWEAVE_FILE_ROOTS names none.")


def unusable_root(name: str, reason: str) -> ToolFailed:
    """Refuse a path below a root that is not there."""
    return ToolFailed(
        NOT_CONFIGURED,
        f"TOOLWEAVE_FILE_ROOTS names the folder '{name}', which {reason}.",
        "Ask the operator to correct the setting.",
    )


def failed(error: OSError) -> ToolFailed:
    """Put what the operating system said into an answer."""
    if error.errno in _ABSENT:
        return missing()
    if error.errno in _DENIED:
        return ToolFailed(ACCESS_DENIED, "The server may not read this file or folder.")
    return ToolFailed(UNAVAILABLE, f"The file or folder cannot be read: {error.strerror}.")
