"""Wrappers that stack with MLflow's and come off again, and the clock of a fit."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

from mlflow.utils.autologging_utils.events import AutologgingEventLogger

# MLflow keeps the function that it has replaced in a slot beside it and puts that one back when its
# autologging is switched off or on again. A wrapper around the function alone would be lost then,
# so the slot is wrapped too. A wrapper that MLflow has wrapped in turn cannot be taken out of
# there; switched off, it only passes calls on.
_SLOT = "_gorilla_original_"
#: Whose calls are no calls of the user's script.
_INTERNAL = {"sklearn", "mlflow_mleval"}
#: Its frames lie between any function of scikit-learn and whoever calls it.
_CHECKS = "sklearn.utils._param_validation"


class Patches:
    """Wrappers that are on until `restore`, and on again after the next `wrap`; a copy in another
    process is off. A function gets the same wrapper every time: names that a script has imported in
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
        """Let calls of the user's script go to ``hook(original, *args, **kwargs)``; frames of the
        module `through` pass a call on.
        """
        self.active = True
        for slot in (name, _SLOT + name):
            current = vars(owner).get(slot)
            if current is None or id(current) in self._wrappers:
                continue
            # One wrapper a function, so that pickle finds it where its name says.
            wrapper = self._by_original.get(id(current)) or self._wrapper(current, hook, through)
            setattr(owner, slot, wrapper)
            self._places.append((owner, name))

    def wraps(self, cls: type, name: str) -> bool:
        """Whether calls of this method pass a wrapper."""
        owner, slot = places_to_wrap([cls], name)[0]
        return any(id(vars(owner).get(key)) in self._wrappers for key in (slot, _SLOT + slot))

    def restore(self) -> None:
        """Switch the wrappers off, and put the functions back wherever the wrappers still are."""
        self.active = False
        for owner, name in self._places:
            for slot in (name, _SLOT + name):  # MLflow may have come later
                wrapper, original = self._wrappers.get(id(vars(owner).get(slot)), (None, None))
                if wrapper is not None:
                    setattr(owner, slot, original)
        self._places.clear()

    def imported_earlier(self) -> dict[str, list[str]]:
        """Names of modules of the user that are still bound to a wrapped function, by module."""
        originals = {id(original): original for _, original in self._wrappers.values()}
        by_module: dict[str, list[str]] = {}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            # __mp_main__ is what multiprocessing calls __main__, too
            of_package = name.partition(".")[0] in {"mlflow", "__mp_main__", *_INTERNAL}
            if of_package or "site-packages" in path or "dist-packages" in path:
                continue
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if originals.get(id(value), by_module) is value:
                    by_module.setdefault(name, []).append(key)
        return by_module

    def _wrapper(self, original: Any, hook: Callable[..., Any], through: str) -> Any:
        key = id(original)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.active and _called_by_user(through):
                return self._hooks[key](original, *args, **kwargs)
            return original(*args, **kwargs)

        # not in the closure, which is pickled with a function that MLflow has wrapped
        self._hooks[key] = hook
        self._wrappers[id(wrapper)] = wrapper, original
        self._by_original[key] = wrapper
        return wrapper


def _called_by_user(through: str) -> bool:
    """Whether the caller's caller is the script: no frame above it is one of scikit-learn or of
    this package. The whole stack counts: scikit-learn calls what the script defines.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in _INTERNAL and module not in (_CHECKS, through):
            return False
        frame = frame.f_back
    return True


def places_to_wrap(owners: Iterable[type], name: str) -> list[tuple[Any, str]]:
    """Where to wrap a method: each class in the ancestry that has it, or its descriptor."""
    slots: list[tuple[Any, str]] = []
    for owner in dict.fromkeys(base for cls in owners for base in cls.__mro__):
        method = vars(owner).get(name)
        if hasattr(method, "check") and hasattr(method, "fn"):
            slots.append((method, "fn"))
        elif callable(method):
            slots.append((owner, name))
    return slots


class FitClock:
    """Times fits without what MLflow's own autologging does around them. MLflow announces when one
    of its wrappers calls the function that it wraps; all announcements are passed on.

    >>> FitClock().timed(lambda estimator, x: x + 1, "an estimator", 1)[0]
    2
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._before: Any = AutologgingEventLogger()

    def start(self) -> None:
        """Listen to MLflow."""
        if AutologgingEventLogger.get_logger() is not self:
            self._before = AutologgingEventLogger.get_logger()
            AutologgingEventLogger.set_logger(self)

    def stop(self) -> None:
        """Listen no more."""
        if AutologgingEventLogger.get_logger() is self:
            AutologgingEventLogger.set_logger(self._before)

    def timed(
        self, fit: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, float]:
        """What the fit returns, and its seconds without those of MLflow."""
        outer = getattr(self._local, "fit", None)
        self._local.fit = own = _Fit()
        try:
            result = fit(estimator, *args, **kwargs)
            own.note()
            return result, own.seconds
        finally:
            self._local.fit = outer

    def __getattr__(self, name: str) -> Any:
        announce, change = getattr(self._before, name), _CHANGES.get(name)

        def passed_on(*announced: Any) -> None:
            fit = getattr(self._local, "fit", None)
            if fit is not None and change is not None:
                fit.note()
                with suppress(IndexError):
                    change(fit.wrappers)
            announce(*announced)

        return announce if change is None else passed_on


class _Fit:
    """A fit that goes on: its seconds, and whether MLflow's wrappers are at work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wrappers: list[bool] = []
        self._last = time.perf_counter()

    def note(self) -> None:
        """Count the time since the last change."""
        now = time.perf_counter()
        if not any(self.wrappers):
            self.seconds += now - self._last
        self._last = now


#: What each announcement of MLflow says of its wrappers that are at work.
_CHANGES: dict[str, Callable[[list[bool]], object]] = {
    "log_patch_function_start": lambda stack: stack.append(True),
    "log_original_function_start": lambda stack: stack.__setitem__(-1, False),
    "log_original_function_success": lambda stack: stack.__setitem__(-1, True),
    "log_original_function_error": list.pop,  # nothing is announced after it
    "log_patch_function_success": list.pop,
    "log_patch_function_error": list.pop,
}
