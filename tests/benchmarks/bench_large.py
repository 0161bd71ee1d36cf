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
from collections.abc import Iterator

import numpy as np
import pandas as pd
from timing import Row, told

#: Name -> methods, datasets, measures, and at most so many seconds of CPU.
STUDIES = {
    "datasets": (5, 2000, 20, 16),
    "methods": (2000, 1, 20, 30),
    "runs": (100, 100, 20, 25),
    "measures": (10, 20, 500, 30),
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
    """Seconds of CPU, MB of memory, of the page and of its data, in this process."""
    from mlflow_mleval.analysis.comparison import compare
    from mlflow_mleval.report.content.study_report import document

    data = study(methods, datasets, measures)
    start = time.process_time()
    made = document(compare(data, stability=True, rope=0.01), {"command": "mleval report"})
    files, page = made.files(), made.to_html()
    seconds = time.process_time() - start
    peak = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / 1e6
    )
    return {
        "seconds": seconds,
        "memory": peak,
        "page": len(page.encode()) / 1e6,
        "data": sum(len(text.encode()) for text in files.values()) / 1e6,
    }


def rows(names: list[str]) -> Iterator[Row]:
    for name in names or STUDIES:
        *shape, bound = STUDIES[name]
        command = [sys.executable, __file__, *map(str, shape)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        sizes = ", ".join(f"{found[what]:.0f} MB of {what}" for what in ("memory", "page", "data"))
        methods, datasets, measures = (f"{n:,}" for n in shape)
        work = f"a report on {methods} methods × {datasets} datasets × {measures} measures"
        yield Row(work, found["seconds"], bound=bound, note=sizes)


if __name__ == "__main__":
    given = [text for text in sys.argv[1:] if text != "--json"]
    if len(given) == 3 and all(text.isdigit() for text in given):
        print(json.dumps(report(*map(int, given))))
    else:
        sys.exit(told(rows(given)))
