"""Hide files that nobody should be shown: secrets, the insides of tools, what the operator names (C-05)."""

import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolweave.errors import ConfigError
from toolweave.servers.core.files.rule_set import RuleSet

DEFAULT_RULES = (
    *(".git", ".hg", ".svn", ".toolweave", "node_modules", ".venv", "venv", "__pycache__", ".DS_Store"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    *(".env*", "*.env", "!.env.example", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "*.tfstate", "*.tfstate.*"),
    *(".dockercfg", ".s3cfg", ".vault-token", ".*_history"),
)
_ENDS_OF_COPIES = ("~", "#", ".bak", ".backup", ".old", ".orig", ".save", ".copy")


class IgnoreRules:
    """The rules that hide files from reading and searching: the usual ones, then the operator's, who may undo them."""

    def __init__(self, operators: Iterable[str], *, private_folder: Path) -> None:
        try:
            self._rules = RuleSet([*DEFAULT_RULES, *operators], ignore_case=True)
        except ValueError:
            raise ConfigError(
                "TOOLWEAVE_FILE_IGNORE holds what is no pattern.",
                source="settings",
                fix="Write patterns as in .gitignore, separated by commas, such as *.bak,drafts/.",
            ) from None
        self._private_folder = private_folder.absolute()

    def hides(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Tell whether a rule hides the last of `parts`, the path from its root; what is above it is not asked again.

        Capital letters count as small ones: some file systems know no difference. Of a copy, such as notes.txt~, that
        no rule names itself, the rules for what it was copied from hold.
        """
        decision = self._rules.decision(parts, is_folder=is_folder)
        if decision is None and (other := _other_name(parts[-1])):
            return self.hides((*parts[:-1], other), is_folder=is_folder)
        return decision is True

    def is_private(self, info: os.stat_result) -> bool:
        """Tell whether this is the folder in which Toolweave keeps its own data, whatever it is called."""
        return is_at(self._private_folder, info)


def is_at(path: Path, info: os.stat_result) -> bool:
    """Tell whether `info` is of what is at a path, by whichever name it was found."""
    try:
        there = path.stat()
    except OSError:
        return False
    return (info.st_dev, info.st_ino) == (there.st_dev, there.st_ino)


def _other_name(name: str) -> str | None:
    """Give a name that a file has as good as this one: that of what it is a copy of, or one without odd letters."""
    if not name.isascii():
        # Some file systems know no difference here either.
        plain = "".join(
            letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf"
        )
        if plain not in ("", name):
            return plain
    end = next((end for end in _ENDS_OF_COPIES if name.lower().endswith(end)), "")
    original = name[: len(name) - len(end)]
    if end == "#":
        original = original.removeprefix("#")
    return original if end and original else None
