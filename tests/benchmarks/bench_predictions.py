"""Time the evaluation of files block by block against reading them whole with pandas and NumPy, and
its memory.

python tests/benchmarks/bench_predictions.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from timing import best

import mlflow_mleval as mleval
from mlflow_mleval.files.predictions import evaluate_file

N, K = 300_000, 14
NAMES = [f"label {i}" for i in range(K)]
#: Memory of a process at its highest, beyond what it had after a file of a few rows, in MB; Arrow's
#: counts too.
PEAK = """
import sys
from mlflow_mleval.files.predictions import evaluate_file

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

evaluate_file(sys.argv[2])
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = peak()
evaluate_file(sys.argv[1])
print(peak() - before)
"""  # noqa: E501


def whole(table: pd.DataFrame) -> object:
    parts = (table[[f"{kind}_{name}" for name in NAMES]].to_numpy() for kind in ("true", "score"))
    return mleval.evaluate(*parts, label_names=NAMES, instances=False)


def whole_npz(path: Path) -> object:
    with np.load(path) as file:
        return mleval.evaluate(file["y_true"], file["y_score"], label_names=NAMES, instances=False)


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def main() -> int:
    rng = np.random.default_rng(0)
    missed = False
    print(f"{'what':<34} {'size':>8} {'time':>8} {'whole':>8} {'ratio':>6} {'memory':>8}")

    def row(what: str, path: Path, small: Path, peer: Callable[[], object]) -> None:
        """At most twice the time of reading it whole, without any check of a row, and in at most 64
        MB.
        """
        nonlocal missed
        took, other = best(lambda: evaluate_file(path), peer, repeats=5)
        done = subprocess.run(
            [sys.executable, "-c", PEAK, path, small], capture_output=True, text=True, check=True
        )
        memory, size = float(done.stdout), path.stat().st_size / 1e6
        late = took > 2 * other or memory > 64
        missed |= late
        print(
            f"{what:<34} {size:>5.0f} MB {took:>6.2f} s {other:>6.2f} s {took / other:>6.2f} "
            f"{memory:>5.0f} MB  {'MISSED' if late else 'ok'}"
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        y, s = rng.random((N, K)) < 0.3, rng.random((N, K))
        table = pd.concat(
            [
                pd.DataFrame(m, columns=[f"{kind}_{n}" for n in NAMES])
                for kind, m in (("true", y.astype(int)), ("score", s))
            ],
            axis=1,
        )
        paths = {
            suffix: (folder / f"large.{suffix}", folder / f"small.{suffix}")
            for suffix in ("csv", "quoted.csv", "parquet", "npz", "txt")
        }
        for part, i in ((table, 0), (table[:5], 1)):
            part.to_csv(paths["csv"][i], index=False)
            part.assign(note='a "quoted"\ntext').to_csv(paths["quoted.csv"][i], index=False)
            part.to_parquet(paths["parquet"][i])
            np.savez(paths["npz"][i], y_true=y[: len(part)], y_score=s[: len(part)])
        row("CSV, 300,000 x 14", *paths["csv"], lambda: whole(pd.read_csv(paths["csv"][0])))
        row(
            "CSV with quoted text",
            *paths["quoted.csv"],
            lambda: whole(pd.read_csv(paths["quoted.csv"][0])),
        )
        row("parquet", *paths["parquet"], lambda: whole(pd.read_parquet(paths["parquet"][0])))
        row("npz", *paths["npz"], lambda: whole_npz(paths["npz"][0]))

        edges = [(str(rng.integers(0, i)), str(i)) for i in range(1, 2_000)]
        (folder / "edges").write_text("".join(f"{a} {b}\n" for a, b in edges))
        h = mleval.Hierarchy(edges)
        for n, i in ((100_000, 0), (5, 1)):
            text = "".join(
                " ".join(map(str, rng.integers(0, 2_000, rng.integers(1, 4)))) + "\n"
                for _ in range(n)
            )
            paths["txt"][i].write_text(text)
        large = paths["txt"][0]
        shifted = folder / "true"
        shifted.write_text("".join(line + "\n" for line in large.read_text().splitlines()[::-1]))

        def sets() -> object:
            return mleval.evaluate_hierarchical(lines(shifted), lines(large), h, instances=False)

        options = {"truth": str(shifted), "hierarchy": str(folder / "edges")}
        took, other = best(lambda: evaluate_file(large, **options), sets, repeats=2)
        missed |= took > 2 * other
        print(
            f"{'classes, 100,000 lines':<34} {large.stat().st_size / 1e6:>5.0f} MB {took:>6.2f} "
            f"s {other:>6.2f} s {took / other:>6.2f} {'':>8}  "
            f"{'MISSED' if took > 2 * other else 'ok'}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
