"""Where the module of a person's own model lies, and which of its neighbours it imports. Nothing is imported here."""

import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from fedhpc.mistakes import ExperimentError

_KEY = "task.model.callable"


def find_own(module: str, base: Path) -> Path:
    """The file of ``module``: beside the experiment's file, in ``base``, or else where Python looks. Raises
    ExperimentError where there is none, or its name is that of a module of Python's own."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise ExperimentError(base, [f"{_KEY}: {top} is the name of one of Python's own modules; rename the file"])
    for root in [base, *map(Path, sys.path)]:
        if (file := _file_in(root, module)) is not None:
            return file.absolute()
    # Where a package is installed in a way that only its own finder knows.
    try:
        spec = find_spec(module)
    except Exception:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        relative = Path(*module.split(".")).with_suffix(".py")
        raise ExperimentError(
            base, [f"{_KEY}: there is no module {module}; put {relative} into {base.absolute()}, beside the experiment"]
        )
    return Path(spec.origin)


def root_of(module: str, file: Path) -> Path:
    """The folder from which ``module`` is imported, if ``file`` is it. Raises ExperimentError where it cannot be."""
    parts = module.split(".")
    for root in file.parents:
        if _file_in(root, module) == file:
            return root
    raise ExperimentError(
        file, [f"task.model.file: this is no module {module}; give the path of {Path(*parts).with_suffix('.py')}"]
    )


def own_sources(module: str, file: Path) -> dict[str, Path]:
    """``module``, and all from the same folder that it imports, directly or not: their files by their names, sorted.

    So many as their texts tell: what is imported by a name that is computed is not among them. Raises ExperimentError
    where ``file`` is not ``module``.
    """
    root, found, waiting = root_of(module, file), {module: file}, [module]
    while waiting:
        name = waiting.pop()
        for imported in _imported(name, found[name]):
            own = None if imported.partition(".")[0] in sys.stdlib_module_names else _file_in(root, imported)
            if own is not None and imported not in found:
                found[imported] = own
                waiting.append(imported)
    return dict(sorted(found.items()))


def _file_in(root: Path, module: str) -> Path | None:
    stem = root.joinpath(*module.split("."))
    for file in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if file.is_file():
            return file
    return None


def _imported(name: str, file: Path) -> Iterator[str]:
    """The dotted names that a module's text imports, each with the packages that it lies in; some may be no modules."""
    packages = name.split(".")
    yield from _with_packages(name)
    if file.name != "__init__.py":
        packages.pop()
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # told when it is imported
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            outer = packages[: len(packages) - node.level + 1] if node.level else []
            origin = ".".join([*outer, *([node.module] if node.module else [])])
            yield from _with_packages(origin)
            yield from (f"{origin}.{alias.name}" for alias in node.names if origin)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: end + 1]) for end in range(len(parts)) if name)
