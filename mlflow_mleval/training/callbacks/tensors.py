"""Tensors of PyTorch as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def array(value: Any) -> np.ndarray:
    """The values, in a precision that numpy knows."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() else value).numpy()
