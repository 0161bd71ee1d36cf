"""What is done beside a training must not touch it: not its random state, not its course."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from mlflow.utils import autologging_utils

from mlflow_mleval.tracking import store


@contextmanager
def same_randomness() -> Iterator[None]:
    """Leave the random states of Python, numpy and PyTorch as they are; iterating over a PyTorch
    DataLoader draws a number.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that others draw from
    torch = sys.modules.get("torch")
    try:
        if torch is None:
            yield
        else:
            devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
            with torch.random.fork_rng(devices=devices):
                yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


@contextmanager
def without_mlflow() -> Iterator[None]:
    """Without MLflow's own autologging: its wrappers would log what is predicted for an evaluation,
    and stumble over lists.
    """
    if autologging_utils._AUTOLOGGING_GLOBALLY_DISABLED:
        yield
    else:
        with autologging_utils.disable_autologging():
            yield


def warn(text: str) -> None:
    """Say it without secrets, even where warnings are errors: that must not stop the training."""
    try:
        warnings.warn(store.redacted(text), stacklevel=3)
    except Warning as error:
        print(error, file=sys.stderr)
