"""Run the command line; every failure ends with one readable paragraph and an exit code."""

import importlib
import os
import sys
import threading
import traceback

from toolweave.config.logs import wrap_for_terminal
from toolweave.errors import ToolweaveError
from toolweave.extras import require_extra


def error_message(error: BaseException) -> str | None:
    """Return the cause and the fix on one line; None for an error that is not one of ours."""
    if not isinstance(error, ToolweaveError):
        return None
    return _sanitize(" ".join(f"{error.headline}: {error}".split()))


def _sanitize(text: str) -> str:
    """Replace characters that control a terminal: an error may quote a page, a server or a model. Joiners stay."""
    return "".join(each if each.isprintable() or each in "\u200c\u200d" else "�" for each in text)


EXIT_INTERRUPTED = 130
# For threads that an application started and does not stop.
EXIT_TIMEOUT_S = 1.0


def main() -> None:
    """Run the command that `sys.argv` names and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        _run_command()
    except SystemExit as exit_error:
        _exit_despite_threads(exit_error.code if isinstance(exit_error.code, int) else int(exit_error.code is not None))
        raise


def _exit_despite_threads(code: int) -> None:
    """Exit even though the interpreter would wait for every thread that is not a daemon."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        timer = threading.Timer(EXIT_TIMEOUT_S, os._exit, (code,))
        timer.daemon = True
        timer.start()


def _run_command() -> None:
    try:
        require_extra("server")
        importlib.import_module("toolweave.cli.commands").app(prog_name="toolweave")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output is gone; the interpreter must not flush into the pipe either.
        sys.stdout = None
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the top-level handler
        text = error_message(error)
        if text is None:
            traceback.print_exc()
            text = f"{type(error).__name__}: {error} (see the traceback above; if it is in Toolweave, please report it)"
        sys.stderr.write(wrap_for_terminal(f"{text}\n", sys.stderr, "  "))
        sys.exit(1)
