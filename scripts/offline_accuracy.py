"""Print how often the offline model does what a natural todo request asks for, by operation (T-02).

`.venv/bin/python scripts/offline_accuracy.py [--failures]`. Failures are shown for the half that may be tuned on;
those of the held-back half are not, so that its figures stay honest.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.nodes.offline_model.judging import judge, shares
from tests.nodes.offline_model.requests import Half, requests_of

HALVES: tuple[Half, Half] = ("tune", "held")


def main() -> int:
    for half in HALVES:
        requests = requests_of(half)
        print(f"todo requests, {half} half")
        for operation, (right, total) in shares(requests).items():
            print(f"  {operation:<8} {right:>4} of {total:<4} {right / total:>6.1%}")
        for request in requests if half == "tune" and "--failures" in sys.argv[1:] else ():
            if not judge(request):
                print(f"  ! {request.operation}: {[*request.history, request.text]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
