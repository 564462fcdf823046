"""Start the command line; every failure ends as one readable paragraph and an exit code."""

import importlib
import os
import sys
import threading
import traceback

from toolweave.errors import ToolweaveError


def explain(error: BaseException) -> str | None:
    """Say what is wrong and what to do, on one line; None for an error that nobody foresaw."""
    if not isinstance(error, ToolweaveError):
        return None
    return _harmless(" ".join(f"{error.headline}: {error}".split()))


def _harmless(text: str) -> str:
    """Replace what commands a terminal: an error may quote a page, a server or a model. Joiners stay."""
    return "".join(each if each.isprintable() or each in "\u200c\u200d" else "�" for each in text)


INTERRUPTED = 130
# For threads that an application began and nobody ends.
LEFTOVERS_S = 1.0
# Where these are missing, the base install is there without its server extra.
SERVER_EXTRA = frozenset({"typer", "rich", "uvicorn", "fastapi", "starlette", "orjson", "alembic", "langgraph_sdk"})


def main() -> None:
    """Run the command that `sys.argv` names and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        _run()
    except SystemExit as ended:
        _leave_threads_behind(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise


def _leave_threads_behind(code: int) -> None:
    """End the process even though the interpreter would wait for every thread that is no daemon."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        end = threading.Timer(LEFTOVERS_S, os._exit, (code,))
        end.daemon = True
        end.start()


def _run() -> None:
    try:
        importlib.import_module("toolweave.cli.commands").app(prog_name="toolweave")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone; the interpreter must not try to flush into it either.
        sys.stdout = None
        sys.exit(1)
    except ModuleNotFoundError as error:
        if error.name not in SERVER_EXTRA:
            raise
        _leave(f'{error.name} is not installed. Install the command line with: pip install "toolweave[server]"')
    except Exception as error:  # noqa: BLE001 - the top-level handler
        text = explain(error)
        if text is None:
            traceback.print_exc()
            text = f"{type(error).__name__}: {error} (the lines above say where; if in Toolweave, please report them)"
        _leave(text)


def _leave(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.exit(1)
