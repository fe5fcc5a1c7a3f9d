"""YAML as people mean it: a key given twice is a mistake, not a silent choice of the last."""

from pathlib import Path
from typing import Any

import yaml

from fedhpc.mistakes import ExperimentError


class _Loader(yaml.SafeLoader):
    pass


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' is given twice", key_node.start_mark)
        seen.add(key)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> Any:
    """The file's content. Raises ExperimentError where it is missing or no YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ExperimentError(path, [f"cannot be read: {reason}"]) from None
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ExperimentError(path, [f"{place}{getattr(error, 'problem', None) or error}"]) from None
    except (ValueError, TypeError, RecursionError) as error:
        # A date that is none, a key that is a list, nesting without end: PyYAML passes on what Python says.
        raise ExperimentError(path, [f"cannot be read as YAML: {error}"]) from None
