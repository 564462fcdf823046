"""Show on stderr how far the writing of a script is: a bar on a terminal, lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from toolweave.cli.terminal import harmless

BAR_WIDTH, PERCENT_WIDTH = 24, 4


@contextmanager
def shown_progress() -> Iterator[Callable[[float, str], None]]:
    """Give what is to be told percent and a sentence; the bar is gone after the block."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield (
            lambda percent, message: (
                console.print(f"{percent:3.0f} %  {_line(message)}", soft_wrap=True) if message else None
            )
        )
        return
    # The sentence gives way, which may hold a long address: bar and percent are always there.
    columns = (
        BarColumn(bar_width=None, table_column=Column(min_width=BAR_WIDTH, max_width=BAR_WIDTH)),
        TaskProgressColumn(table_column=Column(min_width=PERCENT_WIDTH, no_wrap=True)),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("", total=100.0)
        yield lambda percent, message: bar.update(task, completed=percent, description=_line(message), refresh=True)


def _line(message: str) -> str:
    return " ".join(harmless(message).split())
