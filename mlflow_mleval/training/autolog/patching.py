"""Plain wrappers that stack with MLflow's: put around functions and methods, taken off again, and
switched off for good.

MLflow keeps the function that it has replaced in a slot beside it and puts that one back when its
autologging is switched off or on again. A wrapper around the function alone would be lost then, so
the slot is wrapped too. A wrapper that MLflow has wrapped in turn cannot be taken out of there;
switched off, it only passes calls on.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

_SLOT = "_gorilla_original_"
#: Whose calls are no calls of the user's script.
_INTERNAL = {"sklearn", "mlflow_mleval"}
#: Its frames lie between any function of scikit-learn and whoever calls it.
_CHECKS = "sklearn.utils._param_validation"


class Patches:
    """Wrappers that are on until `restore`, and on again after the next `wrap`; a copy in another
    process is off.

    A function gets the same wrapper every time, so that names which a script has imported in
    between stay good.

    >>> import types
    >>> module = types.SimpleNamespace(double=lambda x: 2 * x)
    >>> before, patches = module.double, Patches()
    >>> patches.wrap(module, "double", lambda original, x: original(x) + 1)
    >>> module.double is before, module.double(3)  # what this package calls is no call of a script
    (False, 6)
    >>> patches.restore()
    >>> module.double is before
    True
    """

    def __init__(self) -> None:
        self.active = False
        self._wrappers: dict[int, tuple[Any, Any]] = {}
        self._by_original: dict[int, Any] = {}
        self._hooks: dict[int, Callable[..., Any]] = {}
        self._places: list[tuple[Any, str]] = []

    def __reduce__(self) -> Any:
        return Patches, ()

    def wrap(self, owner: Any, name: str, hook: Callable[..., Any], *, through: str = "") -> None:
        """Let calls that the user's script makes go to ``hook(original, *args, **kwargs)``.

        Parameters
        ----------
        owner : module, class or descriptor
            Where the function is an attribute; nothing is done where it is inherited only, or
            wrapped already.
        through : str
            A module of scikit-learn whose frames count as passing the user's call on.
        """
        self.active = True
        for slot in (name, _SLOT + name):
            current = vars(owner).get(slot)
            if current is None or id(current) in self._wrappers:
                continue
            # One wrapper a function wherever it is bound, so that pickle finds it where its name
            # says.
            wrapper = self._by_original.get(id(current)) or self._wrapper(current, hook, through)
            setattr(owner, slot, wrapper)
            self._places.append((owner, name))

    def wraps(self, cls: type, name: str) -> bool:
        """Whether calls of this method pass a wrapper."""
        owner, slot = places([cls], name)[0]
        return any(id(vars(owner).get(key)) in self._wrappers for key in (slot, _SLOT + slot))

    def originals(self) -> dict[int, Any]:
        """The wrapped functions by their id."""
        return {id(original): original for _, original in self._wrappers.values()}

    def restore(self) -> None:
        """Switch the wrappers off, and put the functions back wherever the wrappers still are."""
        self.active = False
        for owner, name in self._places:
            for slot in (name, _SLOT + name):  # MLflow may have come later
                wrapper, original = self._wrappers.get(id(vars(owner).get(slot)), (None, None))
                if wrapper is not None:
                    setattr(owner, slot, original)
        self._places.clear()

    def _wrapper(self, original: Any, hook: Callable[..., Any], through: str) -> Any:
        key = id(original)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.active and called_by_user(through):
                return self._hooks[key](original, *args, **kwargs)
            return original(*args, **kwargs)

        self._hooks[key] = (
            hook  # not in the closure, which is pickled with a function that MLflow has wrapped
        )
        self._wrappers[id(wrapper)] = wrapper, original
        self._by_original[key] = wrapper
        return wrapper


def called_by_user(through: str = "") -> bool:
    """Whether the caller's caller is the script: no frame above it is one of scikit-learn or of
    this package.

    The whole stack counts, because a scorer or an estimator that the script defines is called by
    scikit-learn in turn.
    """
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in _INTERNAL and module not in (_CHECKS, through):
            return False
        frame = frame.f_back
    return True


def imported_earlier(originals: dict[int, Any]) -> dict[str, list[str]]:
    """Names of modules of the user that are still bound to a wrapped function, by module."""
    found: dict[str, list[str]] = {}
    for name, module in list(
        sys.modules.items()
    ):  # __mp_main__ is what multiprocessing calls __main__ too
        path = getattr(module, "__file__", None) or ""
        if (
            name.partition(".")[0] in {"mlflow", "__mp_main__", *_INTERNAL}
            or "site-packages" in path
            or "dist-packages" in path
        ):
            continue
        bound = [
            key
            for key, value in list(vars(module).items())
            if originals.get(id(value), found) is value
        ]
        if bound:
            found[name] = bound
    return found


def places(owners: Iterable[type], name: str) -> list[tuple[Any, str]]:
    """Where to wrap a method of these classes: each class in their ancestry that has it, or its
    `available_if` descriptor.
    """
    found = []
    for owner in dict.fromkeys(base for cls in owners for base in cls.__mro__):
        method = vars(owner).get(name)
        if hasattr(method, "check") and hasattr(method, "fn"):
            found.append((method, "fn"))
        elif callable(method):
            found.append((owner, name))
    return found
