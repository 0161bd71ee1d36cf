"""Time a surrogate study with its runs: trained, called again, read back; and the tests of which
surrogate may be the best.

python tests/benchmarks/bench_surrogates.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from bench_dependence import yeast

import mlflow_mleval as mleval
from mlflow_mleval.surrogate import best_surrogates

#: Seconds of the processor, which others that use the machine do not lengthen much.
BOUNDS = {
    "train and log": 30,
    "call again": 1,
    "read back": 1,
    "100 surrogates x 100 folds x 100 targets": 10,
}


def main() -> int:
    missed = False

    def row(what: str, call: Callable[[], object]) -> None:
        nonlocal missed
        start = time.process_time()
        call()
        took = time.process_time() - start
        missed |= took > BOUNDS[what]
        print(
            f"{what:<42} {took:6.2f} s of {BOUNDS[what]} s  "
            f"{'MISSED' if took > BOUNDS[what] else 'ok'}"
        )

    X, Y, name = yeast()
    losses = 0.5 + 0.01 * np.random.default_rng(0).normal(size=(100 * 100, 100))
    index = pd.MultiIndex.from_product([range(1, 101), range(100)], names=["surrogate", "fold"])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.chdir(folder)
        study = {"dataset": name, "experiment_name": "surrogates"}
        row("train and log", lambda: mleval.surrogate_study(X, Y, **study))
        row("call again", lambda: mleval.surrogate_study(X, Y, **study))
        row("read back", lambda: mleval.load_surrogate_study("surrogates", name))
    row(
        "100 surrogates x 100 folds x 100 targets",
        lambda: best_surrogates(pd.DataFrame(losses, index, range(1, 101))),
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
