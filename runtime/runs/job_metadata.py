"""Say in a job's metadata how far it has come and why it failed, together with its end (A-05).

A job is a run that has reported progress. Other runs have the metadata that they have on the official server.
"""

from dataclasses import replace

from toolweave.runtime.models import JsonObject, Outcome, Run
from toolweave.runtime.run_record import JOB_ERROR
from toolweave.runtime.runs.progress import RunProgress, shortened

LONGEST_ERROR = 2_000
PROGRESS = "progress"


def with_job_metadata(outcome: Outcome, run: Run, progress: RunProgress) -> Outcome:
    """Add what a job's metadata are to say: its last progress, and the text of its failure."""
    told: JsonObject = {} if progress.latest is None else {PROGRESS: progress.latest}
    failed = outcome.status in ("error", "timeout") and outcome.error is not None
    if failed and (told or _progress_of_earlier_attempt(run)):
        told[JOB_ERROR] = shortened((outcome.error or {}).get("message"), LONGEST_ERROR)
    return replace(outcome, run_metadata=told) if told else outcome


def asked_metadata(run: Run) -> JsonObject:
    """Give a run's metadata without the progress that an earlier attempt has told."""
    if not _progress_of_earlier_attempt(run):
        return run.metadata
    return {name: item for name, item in run.metadata.items() if name != PROGRESS}


def _progress_of_earlier_attempt(run: Run) -> bool:
    told = run.metadata.get(PROGRESS)
    return run.attempt > 1 and isinstance(told, dict) and told.keys() == {"percent", "message"}
