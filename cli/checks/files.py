"""Check the folders that the core tools may read (C-05)."""

from collections.abc import Iterator

from toolweave.cli.doctor import Finding, failure
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.files.opening import Roots

SUBJECT = "file roots"


def check_files(settings: Settings) -> Iterator[Finding]:
    """Say whether each folder is there and the ignore rules can be read; nothing where no folder is named."""
    if not settings.file_roots:
        return
    roots = Roots(settings.file_roots, private_folder=settings.data_dir)
    problems = roots.problems()
    for problem in problems:
        yield Finding("warn", SUBJECT, problem, "Make the folder, or correct TOOLWEAVE_FILE_ROOTS.")
    if not problems:
        yield Finding("ok", SUBJECT, f"{', '.join(roots.names)}.")
    try:
        Roots((), settings.file_ignore, private_folder=settings.data_dir)
    except ConfigError as error:
        yield failure(SUBJECT, error)
