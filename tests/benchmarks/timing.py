"""Time and memory of calls, as all benchmarks take them."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any


def best(*calls: Callable[[], object], repeats: int = 7) -> list[float]:
    """The least of several times of each call, in seconds, taken in turns so that a busy machine
    slows all alike.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def cpu(*calls: Callable[[], object], repeats: int = 5) -> list[float]:
    """The median of several times of each call, in seconds of CPU, taken in turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            taken.append(time.process_time() - start)
    return [median(taken) for taken in times]


def peak(call: Callable[[], object]) -> float:
    """Memory at its highest above the start, in MB."""
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 1e6


def timed(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[float, Any]:
    """The seconds of one call, and what it returns."""
    start = time.perf_counter()
    result = call(*args, **options)
    return time.perf_counter() - start, result
