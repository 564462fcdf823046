"""Hide files that nobody should be shown: secrets, the insides of tools, what the operator names (C-05)."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolweave.errors import ConfigError
from toolweave.servers.core.files.rule_set import RuleSet

DEFAULT_RULES = (
    *(".git", ".hg", ".svn", ".toolweave", "node_modules", ".venv", "venv", "__pycache__", ".DS_Store"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    *(".env", ".env.*", ".envrc", "!.env.example", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "*.tfstate", "*.tfstate.*"),
)


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

        Capital letters count as small ones: some file systems know no difference.
        """
        return self._rules.decision(parts, is_folder=is_folder) is True

    def is_private(self, info: os.stat_result) -> bool:
        """Tell whether this is the folder in which Toolweave keeps its own data, whatever it is called."""
        try:
            private = self._private_folder.stat()
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == (private.st_dev, private.st_ino)
