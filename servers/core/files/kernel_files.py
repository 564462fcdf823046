"""Tell files that a kernel makes up, such as those in /proc, from files that somebody wrote."""

import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_MADE_UP = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs"),
        "tracefs",
    )
)


def is_kernel_file_system(device: int) -> bool:
    """Tell whether files on this device (`st_dev`) show the state of the machine; no where Linux does not say."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(_kind(fields) in _MADE_UP for line in mounts.splitlines() if (fields := line.split())[2:3] == [number])


def _kind(fields: list[str]) -> str:
    # After a variable number of optional fields comes "-", then the kind of file system.
    return fields[fields.index("-") + 1] if "-" in fields[:-1] else ""
