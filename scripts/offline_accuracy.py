"""Print how often the offline model does what a natural request asks for, on both halves of its lists.

`.venv/bin/python scripts/offline_accuracy.py [--failures]`. There is one list for the todo tools, counted by operation,
and one for the workflow's choice among the operations of each API: of a shop and of smaller ones. Failures are shown
for the halves that may be tuned on; those of the held-back halves are not, so that their figures stay honest.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.nodes.offline_model import judging
from tests.nodes.offline_model.operations import judging as choosing
from tests.nodes.offline_model.operations.instructions import Instruction, instructions_of
from tests.nodes.offline_model.operations.judging import shop_operations
from tests.nodes.offline_model.operations.other_apis import OTHER_APIS, TUNE_ONLY, instructions_for
from tests.nodes.offline_model.requests import Half, requests_of
from toolweave.tool_config import ToolConfig

HALVES: tuple[Half, Half] = ("tune", "held")
FAILURES = "--failures" in sys.argv[1:]


def main() -> int:
    for half in HALVES:
        todo_requests(half)
    for half in HALVES:
        workflow_instructions("shop", half, instructions_of(half), shop_operations())
    for api, tools in (OTHER_APIS | TUNE_ONLY).items():
        for half in HALVES if api in OTHER_APIS else HALVES[:1]:
            workflow_instructions(api, half, instructions_for(api, half), tools)
    return 0


def todo_requests(half: Half) -> None:
    verdicts = [judging.judge(request) for request in requests_of(half)]
    print_shares(f"todo requests, {half} half", judging.shares(verdicts))
    for verdict in verdicts if half == "tune" and FAILURES else ():
        if not verdict.right:
            request = verdict.request
            print(f"  ! {request.operation}: {[*request.history, request.text]}")
            print(f"      {list(verdict.calls)}\n      {verdict.answer!r}")


def workflow_instructions(api: str, half: Half, listed: Sequence[Instruction], tools: Sequence[ToolConfig]) -> None:
    verdicts = [choosing.judge(one, tools) for one in listed]
    print_shares(f"workflow instructions for the {api}, {half} half", choosing.shares(verdicts))
    for verdict in verdicts if half == "tune" and FAILURES else ():
        if not verdict.right:
            wanted = verdict.instruction
            print(f"  ! {wanted.text}\n      wanted {wanted.tool} {wanted.arguments}\n      {verdict.written}")


def print_shares(title: str, counted: dict[str, tuple[int, int]]) -> None:
    print(title)
    for kind, (right, total) in counted.items():
        print(f"  {kind:<8} {right:>4} of {total:<4} {right / total:>6.1%}")


if __name__ == "__main__":
    sys.exit(main())
