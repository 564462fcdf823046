"""List every requirement id of the specification, and which of them wait for a later issue."""

COUNTS = {"D": 13, "A": 8, "T": 14, "W": 10, "C": 9, "S": 7, "O": 4}

ALL_IDS = frozenset(
    f"{letter}-{number}" if letter == "D" else f"{letter}-{number:02}"
    for letter, count in COUNTS.items()
    for number in range(1, count + 1)
)

WAITING_FOR: dict[str, tuple[str, ...]] = {
    "the issue on scale-out": ("S-06",),
}

PLANNED = {requirement: issue for issue, ids in WAITING_FOR.items() for requirement in ids}
