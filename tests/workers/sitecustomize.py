"""Loaded by Python at the start of every program of these tests: ends a supervisor at a named step, as kill -9 would.

CRASH=module:class:method:before|after:n ends the process at the n-th call of that method. Without it nothing happens,
and nothing of this is in fleet itself.
"""

import os
import sys
from typing import Any

CRASH = os.environ.get("CRASH", "")


def install(module: Any, class_name: str, method: str, when: str, number: int) -> None:
    """Wrap a method so that its n-th call kills this process."""
    owner = getattr(module, class_name)
    plain = next(each.__dict__[method] for each in owner.__mro__ if method in each.__dict__)
    is_class_method = isinstance(plain, classmethod)
    original = plain.__func__ if is_class_method else plain
    calls = [0]

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        is_last = calls[0] == number
        if is_last and when == "before":
            os._exit(137)
        answer = original(*args, **kwargs)
        if is_last and when == "after":
            os._exit(137)
        return answer

    setattr(owner, method, classmethod(wrapped) if is_class_method else wrapped)


class Finder:
    """An import hook that wraps a method of a module."""

    def __init__(self, name: str, *rest: str) -> None:
        self.name, self.rest = name, rest

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the usual spec, with a loader that wraps the method."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def load(module: Any) -> None:
            execute(module)
            class_name, method, when, number = self.rest
            install(module, class_name, method, when, int(number))

        spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


if CRASH and "run" in sys.orig_argv:  # sys.argv is not there yet
    sys.meta_path.insert(0, Finder(*CRASH.split(":")))
