"""Show on stderr how far the writing of a script is: a bar on a terminal, lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from toolweave.cli.terminal import harmless


@contextmanager
def shown_progress() -> Iterator[Callable[[float, str], None]]:
    """Give what is to be told percent and a sentence; the bar is gone after the block."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield lambda percent, message: console.print(f"{percent:3.0f} %  {_line(message)}", soft_wrap=True)
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=100.0)
        yield lambda percent, message: bar.update(task, completed=percent, description=_line(message))


def _line(message: str) -> str:
    return " ".join(harmless(message).split())
