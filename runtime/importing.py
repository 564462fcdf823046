"""Import what langgraph.json names: a module's attribute, or a file's."""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from toolweave.config.langgraph_json import LangGraphJson
from toolweave.errors import ConfigError


def load_graph(config: LangGraphJson, graph_id: str) -> object:
    """Load a graph, or what makes it. Raises ConfigError."""
    target = config.graphs[graph_id].target
    return load_target(target, config.path.parent, what=f"graph {graph_id!r}", source=str(config.path))


def load_target(target: str, folder: Path, *, what: str = "", source: str = "langgraph.json") -> object:
    """Load `module:attribute` or `path/to/file.py:attribute` (relative to the folder of langgraph.json).

    `what` names the entry in errors, such as "graph 'agent'"; `source` the file that asks for it.

    Raises:
        ConfigError: the file, module or attribute does not exist, or importing it failed, in whatever way.
    """
    where, _, attribute = target.rpartition(":")
    named = f"{what}: " if what else ""
    if not where or not attribute:
        raise ConfigError(f"{named}{target!r} names no attribute.", source=source, fix="Write module:attribute.")
    try:
        module = _load_file(folder / where) if where.endswith(".py") or "/" in where else importlib.import_module(where)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise ConfigError(f"{named}cannot load {target!r}: {_told(error)}.", source=source, fix=_fix(error)) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise ConfigError(f"{named}{where!r} has no {attribute!r}.", source=source) from error


def _told(error: BaseException) -> str:
    """Say what was raised, and where in the code that was being imported."""
    text = str(error).strip().rstrip(".")
    if isinstance(error, ImportError | OSError | SyntaxError):
        said = text or type(error).__name__
    else:
        said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError):
        return said
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame.filename)]
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said


def _is_theirs(filename: str) -> bool:
    path = Path(filename)
    return path.is_file() and filename != __file__ and path.parent != Path(importlib.__file__).parent


def _fix(error: BaseException) -> str:
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "Name it by its module instead of its file (package.module:name), or import by the package's name."
    if isinstance(error, ImportError | OSError):
        return "Check the path, and that the application's dependencies are installed."
    return "Correct the module; it must be importable without a server."


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    # The same in every process: checkpoints name the classes of their values by module.
    name = f"_served_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
