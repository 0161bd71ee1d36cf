"""CPU time, peak memory and page of reports about large studies, each in a process of its own.

    python tests/benchmarks/bench_large.py [name ...]

Synthetic tables of results: measures of which each says how good a method is, how hard a dataset,
and noise. A report is what `mleval report` makes of a study that has been read: comparison with
stability and a rope, page, JSON and CSV. Peak memory is the largest resident set of the process,
imports and study included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd

#: Name -> methods, datasets, measures; and the bounds: seconds of CPU, MB of memory and of page
#: (None: no bound).
STUDIES = {
    "datasets": (5, 2000, 20, 60, None, None),
    "methods": (2000, 1, 20, 30, 600, 2),
    "runs": (100, 100, 20, 25, 600, None),
    "measures": (10, 20, 500, 30, None, None),
}


def study(methods: int, datasets: int, measures: int) -> object:
    from mlflow_mleval.study import Study

    rng = np.random.default_rng(0)
    skill, ease = rng.normal(size=(1, methods, 1)), rng.normal(size=(datasets, 1, 1))
    values = 1 / (1 + np.exp(-(skill + ease + rng.normal(size=(datasets, methods, measures))) / 2))
    names = [f"measure {i}" for i in range(measures)]
    frame = pd.DataFrame(values.reshape(-1, measures).round(4), columns=names)
    frame.insert(0, "method", [f"method {i}" for i in range(methods)] * datasets)
    frame.insert(0, "dataset", np.repeat([f"dataset {i}" for i in range(datasets)], methods))
    return Study.from_frame(frame, maximize=names[::2], minimize=names[1::2])


def report(methods: int, datasets: int, measures: int) -> dict[str, float]:
    """Seconds of CPU, MB of memory, and MB of the page, of JSON and of CSV, in this process."""
    from mlflow_mleval.analysis.comparison import compare
    from mlflow_mleval.report.content.study_report import document

    data = study(methods, datasets, measures)
    start = time.process_time()
    made = document(compare(data, stability=True, rope=0.01), {"command": "mleval report"})
    files, page = made.files(), made.to_html()
    seconds = time.process_time() - start
    sizes = {name: len(text.encode()) / 1e6 for name, text in files.items()}
    peak = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / 1e6
    )
    return {
        "seconds": seconds,
        "memory": peak,
        "page": len(page.encode()) / 1e6,
        "json": sizes.pop("report.json"),
        "csv": sum(sizes.values()),
    }


def main(names: list[str]) -> int:
    missed = False
    heads = " ".join(f"{head:>8}" for head in ("CPU", "bound", "peak", "page", "JSON", "CSV"))
    print(f"{'study':9} {'methods x datasets x measures':30} {heads}")
    for name in names or STUDIES:
        *shape, seconds, memory, page = STUDIES[name]
        done = subprocess.run(
            [sys.executable, __file__, *map(str, shape)], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        bounds = (("seconds", seconds), ("memory", memory), ("page", page))
        late = [
            f"{key} above {bound:g}"
            for key, bound in bounds
            if bound is not None and found[key] > bound
        ]
        missed |= bool(late)
        sizes = " ".join(f"{found[key]:5.1f} MB" for key in ("memory", "page", "json", "csv"))
        print(
            f"{name:9} {' x '.join(map(str, shape)):30} {found['seconds']:6.1f} s "
            f"{found['seconds'] / seconds:8.0%} {sizes}  "
            f"{'MISSED: ' + ', '.join(late) if late else 'ok'}",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) == 3 and all(text.isdigit() for text in given):
        print(json.dumps(report(*map(int, given))))
    else:
        sys.exit(main(given))
