"""A pickle read without being obeyed: it may hold plain containers, numbers and texts, and nothing else.

A pickle is a program, and what it can do beyond building those comes from objects that it names by their module. Here
no name means anything, so that such a pickle ends where it names the first one.
"""

import pickle
from pathlib import Path
from typing import Any

PLAIN = "plain dicts, lists, tuples, numbers and texts"


class NotPlain(Exception):
    """The file is no pickle, a damaged one, or one that holds more than plain data; the text says which."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # The first letters of other files, a text's "c" for one, may be read as an instruction that names something.
        if not all(part.isidentifier() for part in f"{module}.{name}".split(".")):
            raise NotPlain("the file is no pickle, or a damaged one")
        raise NotPlain(f"the pickle names {module}.{name}, and only {PLAIN} are read from one")

    def persistent_load(self, identity: Any) -> Any:
        raise NotPlain(f"the pickle refers to objects that lie elsewhere, and only {PLAIN} are read from one")


def read_plain_pickle(path: Path) -> object:
    """What the pickle holds. Raises NotPlain, and OSError where the file cannot be read."""
    with path.open("rb") as file:
        try:
            return _PlainUnpickler(file, encoding="latin-1").load()
        except (NotPlain, OSError):
            raise
        # Damaged bytes are instructions like others: what they bring about is of any kind.
        except Exception as error:
            raise NotPlain(f"the file is no pickle, or a damaged one ({type(error).__name__}: {error})") from None
