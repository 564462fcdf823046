"""Name the extra whose packages the base installation leaves out (U-05)."""

from importlib.util import find_spec

from toolweave.errors import ConfigError


def require_extra(extra: str, *packages: str) -> None:
    """Check that packages of an extra are installed.

    Raises:
        ConfigError: some are not; the text names them and the command that installs the extra.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        are = "is" if len(missing) == 1 else "are"
        text = f"{', '.join(missing)} {are} not installed."
        raise ConfigError(text, fix=f"Install the extra {extra}: pip install 'toolweave[{extra}]'")
