"""Condense an article that is too long to be read at once: notes of its parts in order, or of such notes again."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from langgraph.config import get_config
from langgraph.func import task
from typing_extensions import TypedDict

from toolweave.errors import ScriptFailed
from toolweave.nodes.model_usage import ModelUsage
from toolweave.nodes.script.writing.chunking import parts_of, tokens_of
from toolweave.nodes.script.writing.material import Block
from toolweave.nodes.script.writing.model_script import read_notes
from toolweave.nodes.script.writing.prompting import ScriptPrompts
from toolweave.nodes.script.writing.writing_state import Notes

AT_ONCE = 4
"""Model calls that run side by side."""
MOST_PARTS = 300
MOST_ROUNDS = 5
LEAST_TOKENS = 100
"""What notes of a part may always take."""
_MUST_SHRINK_TO = 0.9
_FILLED = 0.8

PartsRead = Callable[[int, int, int], None]
"""Is told of a round, from 0, how many parts of how many are read."""


async def condensed(
    blocks: Sequence[Block],
    budget: int,
    prompts: ScriptPrompts,
    usage: list[ModelUsage],
    parts_read: PartsRead,
) -> list[Block]:
    """Give notes of all blocks that take `budget` estimated tokens at most; `usage` gets what the calls used.

    For nodes of a graph only: each part is a task of it.

    Raises:
        ScriptFailed: a call failed, a part got no notes, or the notes do not become short enough.
    """
    for number in range(MOST_ROUNDS):
        parts = await asyncio.to_thread(parts_of, blocks, budget)
        if len(parts) > MOST_PARTS:
            raise ScriptFailed(
                f"The article is too long: about {tokens_of(blocks)} tokens, which are {len(parts)} parts of {budget} "
                f"(article_tokens), and {MOST_PARTS} are read at most."
            )
        notes = await _Round(prompts, parts, budget, usage, partial(parts_read, number)).notes()
        if (left := tokens_of(notes)) <= budget:
            return notes
        if left > tokens_of(blocks) * _MUST_SHRINK_TO:
            break
        blocks = notes
    raise ScriptFailed("The article is too long, and the notes that the model took of it are not short enough.")


class PartRead(TypedDict):
    """What one model call gave of a part."""

    notes: list[Notes]
    usage: ModelUsage


class _Round:
    """One note-taking over all parts."""

    def __init__(
        self,
        prompts: ScriptPrompts,
        parts: Sequence[Sequence[Block]],
        budget: int,
        usage: list[ModelUsage],
        parts_read: Callable[[int, int], None],
    ) -> None:
        self._prompts = prompts
        self._parts = parts
        self._tokens = max(int(budget * _FILLED / len(parts)), LEAST_TOKENS)
        self._usage = usage
        self._parts_read = parts_read
        self._read = 0
        self._free = asyncio.Semaphore(AT_ONCE)
        # Kept one by one: after a crash the parts that were read are not read again. They are known by the order in
        # which they are asked for, which is that of the article.
        self._read_part = task(self.take_notes)

    async def notes(self) -> list[Block]:
        """Read the parts side by side; the first that fails ends the others."""
        used: list[list[ModelUsage]] = [[] for _ in self._parts]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._of_part(place, used[place])) for place in range(len(self._parts))]
        except ExceptionGroup as failures:
            raise _first(failures) from None
        finally:
            self._usage += [call for calls in used for call in calls]
        return [block for task in tasks for block in task.result()]

    async def _of_part(self, place: int, used: list[ModelUsage]) -> list[Block]:
        async with self._free:
            try:
                read = await self._read_part(place)
            except ScriptFailed as error:
                used += error.model_usage
                error.model_usage = []
                raise
        used.append(read["usage"])
        self._read += 1
        self._parts_read(self._read, len(self._parts))
        return [Block(note["heading"], note["text"]) for note in read["notes"]]

    async def take_notes(self, place: int) -> PartRead:
        """Read one part; it raises ScriptFailed, with what was used."""
        number = place + 1
        answered = await self._prompts.take_notes(
            self._parts[place], number, len(self._parts), self._tokens, get_config()
        )
        notes = [Notes(heading=block.heading, text=block.text) for block in read_notes(answered.message)]
        if not notes:
            raise ScriptFailed(
                f"The model took no notes of part {number} of {len(self._parts)} of the article.",
                model_usage=[answered.usage],
            )
        return PartRead(notes=notes, usage=answered.usage)


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    """Give the failure that ended the others, or what nobody foresaw."""
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found
