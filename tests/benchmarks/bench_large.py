"""CPU, peak memory and data of reports about studies, each in a process of its own.

    python tests/benchmarks/bench_large.py [name ...] [--json]

What `mleval report` takes of a table of results, imports included. The bounds are half of what it
took before reports were made faster; with 2,000 datasets also 350 MB, with 500 methods 30 MB of
data. Peak memory is the largest resident set of the process.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from timing import Row, largest, of_own_process, told

DEMO = Path(__file__).parents[2] / "mlflow_mleval" / "data" / "madjarov2012.csv"
#: Name -> methods, datasets, seeds, folds, and at most so many seconds of CPU.
STUDIES = {
    "demo": (12, 11, 1, 1, 3.0),
    "seeds": (100, 10, 3, 1, 4.5),
    "methods": (500, 20, 1, 1, 14.5),
    "datasets": (5, 2000, 1, 1, 16.0),
    "folds": (16, 132, 1, 4, 17.5),
}


def results(methods: int, datasets: int, seeds: int, folds: int) -> pd.DataFrame:
    """A table of results of sixteen measures."""
    from mlflow_mleval.measures.registry import SETS

    sizes = {"dataset": datasets, "method": methods, "seed": seeds, "fold": folds}
    cells = np.array([*product(*map(range, sizes.values()))])
    rng = np.random.default_rng(0)
    skill, ease = rng.normal(size=(methods, 1)), rng.normal(size=(datasets, 1))
    noise = rng.normal(size=(len(cells), 16))
    values = 1 / (1 + np.exp(-(ease[cells[:, 0]] + skill[cells[:, 1]] + noise) / 2))
    frame = pd.DataFrame(cells, columns=[*sizes]).drop(
        columns=[name for name in ("seed", "fold") if sizes[name] == 1]
    )
    for name in ("dataset", "method"):
        frame[name] = name + " " + frame[name].astype(str)
    return frame.join(pd.DataFrame(values.round(4), columns=SETS["sixteen"]))


def report(table: Path) -> None:
    """Prints the seconds of this process and the MB of its largest set."""
    from mlflow_mleval.cli import main

    missing = ["--missing", "worst"] if table == DEMO else []
    with redirect_stdout(StringIO()):
        main(["report", str(table), *missing, "-o", "r.html"], standalone_mode=False)
    print(json.dumps([time.process_time(), largest()]))


def rows(names: list[str]) -> Iterator[Row]:
    for name in names or STUDIES:
        *sizes, bound = STUDIES[name]
        with tempfile.TemporaryDirectory() as folder:
            table = DEMO
            if name != "demo":
                table = Path(folder, "results.csv")
                results(*sizes).to_csv(table, index=False)
            seconds, peak = of_own_process(__file__, "--table", str(table), cwd=folder)
            data = sum(file.stat().st_size for file in Path(folder, "r_data").iterdir()) / 1e6
        note = f"{peak:.0f} MB of memory, {data:.0f} MB of data"
        methods, datasets, seeds, folds = (f"{n:,}" for n in sizes)
        work = f"a report on {methods} methods × {datasets} datasets"
        work += f" × {seeds} seeds" if seeds != "1" else f" × {folds} folds" if folds != "1" else ""
        room = 350 if name == "datasets" else None
        yield Row(work, seconds, bound=bound, note=note, memory=peak, room=room)


if __name__ == "__main__":
    given = [text for text in sys.argv[1:] if text != "--json"]
    if given[:1] == ["--table"]:
        report(Path(given[1]))
    else:
        root = str(Path(__file__).parents[2])
        os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
        sys.exit(told(rows(given)))
