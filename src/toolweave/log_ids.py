"""Add ids to each line that a request or a run logs (S-12)."""

from contextlib import AbstractContextManager

from loguru import logger

LOG_IDS = ("request_id", "run_id", "thread_id", "assistant_id", "graph_id", "user_id")


def log_ids(**ids: str | None) -> AbstractContextManager[None]:
    """Add `LOG_IDS` to each line that the block logs, in its tasks and threads too; ids of an outer block are removed.

    Lines in JSON leave out ids that are None.
    """
    return logger.contextualize(**(dict.fromkeys(LOG_IDS) | ids))
