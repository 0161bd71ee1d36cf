"""How long a fit took without what MLflow's own autologging does around it, such as logging the
model.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mlflow.utils.autologging_utils.events import AutologgingEventLogger


class FitClock:
    """Times fits. MLflow announces when one of its wrappers calls the function that it wraps; all
    announcements are passed on.

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

    def log_patch_function_start(self, *announced: Any) -> None:
        self._note(lambda stack: stack.append(True))
        self._before.log_patch_function_start(*announced)

    def log_original_function_start(self, *announced: Any) -> None:
        self._before.log_original_function_start(*announced)
        self._note(lambda stack: stack.__setitem__(-1, False))

    def log_original_function_success(self, *announced: Any) -> None:
        self._note(lambda stack: stack.__setitem__(-1, True))
        self._before.log_original_function_success(*announced)

    def log_original_function_error(self, *announced: Any) -> None:
        self._note(list.pop)  # nothing is announced after it
        self._before.log_original_function_error(*announced)

    def log_patch_function_success(self, *announced: Any) -> None:
        self._before.log_patch_function_success(*announced)
        self._note(list.pop)

    def log_patch_function_error(self, *announced: Any) -> None:
        self._before.log_patch_function_error(*announced)
        self._note(list.pop)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)

    def _note(self, change: Callable[[list[bool]], object]) -> None:
        fit = getattr(self._local, "fit", None)
        if fit is not None:
            fit.note()
            with suppress(IndexError):
                change(fit.wrappers)


class _Fit:
    """A fit that is going on: its seconds up to now, and whether each of MLflow's wrappers does
    work of its own.
    """

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
