"""List every requirement id of the specification, and which of them wait for a later issue."""

COUNTS = {"D": 13, "A": 8, "T": 14, "W": 10, "C": 9, "S": 12, "O": 4, "R": 5, "U": 6, "P": 5}

ALL_IDS = frozenset(
    f"{letter}-{number}" if letter == "D" else f"{letter}-{number:02}"
    for letter, count in COUNTS.items()
    for number in range(1, count + 1)
)

WAITING_FOR: dict[str, tuple[str, ...]] = {
    "the issue on long threads": ("R-05",),
    "the issue on the newer MCP protocol": ("P-01", "P-02", "P-03", "P-04", "P-05"),
}

PLANNED = {requirement: issue for issue, ids in WAITING_FOR.items() for requirement in ids}
