"""CPU time and peak memory of studies with folds and repeats, each in a process of its own.

    python tests/benchmarks/bench_large_study.py [name ...]

Simulated results: how good a method is, how hard a dataset, how well the two suit each other, and
noise by fold or repeat. `compare` is what `mleval compare` makes of a study that has been read,
`report` what `mleval report` does: page, JSON and CSV. Imports are not counted, but are in memory.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd

#: Name -> methods, datasets, units of a cell, measures, of what kind the units are, what is made;
#: and the bounds: seconds of CPU and MB of memory.
CASES = {
    "small": (3, 2, 5, 1, "folds", "compare", 1.0, None),
    "next": (8, 10, 3, 2, "repeats", "next", 2.0, None),
    "large-compare": (16, 132, 4, 3, "folds", "compare", 60.0, 700.0),
    "large-report": (16, 132, 4, 3, "folds", "report", 60.0, 700.0),
}
MEASURES = ("accuracy", "macro_f1", "matthews", "balanced_accuracy")


def study(methods: int, datasets: int, units: int, measures: int, kind: str) -> object:
    """A study of results between 0 and 1 that were made on folds of the same split, or repeats."""
    from mlflow_mleval.study import Study

    rng = np.random.default_rng(0)
    shape = (datasets, methods, units, measures)
    skill, ease = rng.normal(0, 0.2, (methods, 1, 1)), rng.normal(1, 1, (datasets, 1, 1, 1))
    fit, noise = rng.normal(0, 0.2, (datasets, methods, 1, 1)), rng.normal(0, 0.1, shape)
    values = (1 / (1 + np.exp(-(ease + skill + fit + noise)))).reshape(-1, measures)
    of_cells = [[f"dataset {i}" for i in range(datasets)], [f"method {i}" for i in range(methods)]]
    unit = kind.removesuffix("s")
    index = pd.MultiIndex.from_product([*of_cells, range(units)], names=["dataset", "method", unit])
    table = pd.DataFrame(values, index, MEASURES[:measures])
    means = table.groupby(level=[0, 1], sort=False).mean()
    runs = pd.DataFrame(means.index.tolist(), columns=["dataset", "method"])
    runs = runs.assign(run_id=[f"{i:032x}" for i in range(len(runs))])
    runs = runs.assign(split_digest="abc", n_train=100 * (units - 1), n_test=100)
    return Study(means, dict.fromkeys(means, "max"), runs=runs, **{kind: table})


def made(data: object, what: str) -> None:
    """What the command makes of the study."""
    from mlflow_mleval.analysis.comparison import compare
    from mlflow_mleval.report.content.study_report import document

    whole = what == "report"
    asked = {"report": "best", "next": True, "compare": False}[what]
    rope = 0.01 if whole else None
    comparison = compare(data, stability=whole, rope=rope, next_dataset=asked)
    if what == "next":
        assert comparison.next_dataset is not None
        return
    page = document(comparison, {}, "report" if whole else "pairs")
    if not whole:
        page.to_text()
        return
    for make in page.parts().values():
        for _ in make():
            pass
    page.to_html()


def measured(case: str) -> dict[str, float]:
    """Seconds of CPU and MB of memory in this process."""
    *shape, kind, what, _, _ = CASES[case]
    made(study(2, 2, 3, 1, kind), what)  # what is imported, is
    data = study(*shape, kind)
    start = time.process_time()
    made(data, what)
    seconds = time.process_time() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"seconds": seconds, "memory": peak / 1e6}


def main(names: list[str]) -> int:
    missed = False
    one_core = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    print(f"{'case':14} {'methods x datasets x units x measures':38} {'CPU':>8} {'peak':>8}")
    for name in names or CASES:
        *shape, kind, _, seconds, memory = CASES[name]
        command = [sys.executable, __file__, "--alone", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_core)
        found = json.loads(done.stdout)
        late = found["seconds"] > seconds or (memory is not None and found["memory"] > memory)
        missed |= late
        size = f"{' x '.join(map(str, shape))} ({kind})"
        print(
            f"{name:14} {size:38} {found['seconds']:6.2f} s {found['memory']:5.0f} MB"
            f"  {'MISSED' if late else 'ok'} (bounds {seconds:g} s, {memory or 'no'} MB)",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(measured(sys.argv[2])))
    else:
        sys.exit(main(sys.argv[1:]))
