"""Write the page performance.md: what work costs beside the best peer, as measured here.

    python examples/scripts/make_performance.py
    python examples/scripts/make_performance.py --only bench_curves bench_spark
    python examples/scripts/make_performance.py --rows bench_page FILE

All benchmarks take hours; `--only` measures those named and keeps what was measured of the others,
and `--rows` takes what `python tests/benchmarks/NAME.py --json` printed, without measuring. What
was measured stands in tests/benchmarks/measured.json, and the page has nothing else. A machine that
is busy with other things makes all figures worse, the ratios less so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "tests" / "benchmarks"
MEASURED = BENCHMARKS / "measured.json"
GUIDE = ROOT / "examples" / "studies" / "performance.md"
sys.path.insert(0, str(BENCHMARKS))

from timing import MISSED, Row  # noqa: E402


class Benchmark(NamedTuple):
    """A benchmark of the page: its arguments, and the packages that say how it was built."""

    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


#: By heading of the page and name of the script.
PARTS: dict[str, dict[str, Benchmark]] = {
    "Evaluating": {
        "bench_curves": Benchmark(packages=("numpy", "scikit-learn", "torchmetrics")),
        "bench_sparse": Benchmark(packages=("numpy", "scipy", "napkinxc")),
        "bench_hierarchical": Benchmark(packages=("numpy", "scipy")),
    },
    "Ranking and testing": {
        "bench_fusion": Benchmark(packages=("numpy", "pymcdm")),
        "bench_tests": Benchmark(packages=("numpy", "scipy", "networkx", "statsmodels")),
        "bench_gate": Benchmark(packages=("numpy",)),
        "bench_large": Benchmark(packages=("numpy", "pandas")),
    },
    "Reading and importing": {
        "bench_query": Benchmark(("stores", "folds", "many"), packages=("mlflow",)),
        "bench_import": Benchmark(("500",), packages=("mlflow",)),
        "bench_start": Benchmark(packages=("mlflow",)),
    },
    "Logging": {
        "bench_log": Benchmark(packages=("mlflow",)),
        "bench_autolog": Benchmark(packages=("mlflow", "scikit-learn")),
    },
    "Spark": {"bench_spark": Benchmark(packages=("pyspark", "pyarrow"))},
    "The page on a server": {
        "bench_page": Benchmark(("plain", "repeats", "login"), packages=("mlflow",))
    },
}
#: Why a bound is missed, by how the name of the work begins.
REASONS: dict[str, str] = {
    "four measures of": "an evaluation has all its measures from one pass; there is no way to ask "
    "for four alone.",
    "added to a fit": "a fit that is watched takes some tenths of a millisecond more, and so does "
    "each part of a forest or a pipeline; 2% of a fit of milliseconds is less.",
    "log 10,000": "the report with its figures and the data are "
    "made and sent, too; the bare calls send metrics alone.",
    "added to a forest": "the rows and scores of a search or a forest are kept until they are "
    "evaluated, and MLflow logs the model in the same second.",
    "set and pair measures of 50,000": "pairs of classes far from each other are looked for in the "
    "graph; the bound is near what that takes.",
    "PROMETHEE of": "the bound is that of functions whose sums follow from sorted values; the "
    "Gaussian one is linear, too, but takes a fast Gauss transform.",
    "a gate of the same in ten slices": "where it says RUN MORE, gates on futures are drawn to say "
    "how many answers it takes.",
    "a report on": "a process of its own imports pandas and scipy, tests, and draws every figure; "
    "the bounds are half of what reports took before on another machine. In turns with what they "
    "were then, on this one, they take .38 (100 methods with seeds), .45 (500) and .44 (folds).",
    "page: ": "each job is a process of its own that reads the runs itself, and packs what it "
    "compared for the next.",
    "`mleval rank` of 100,000": "Python with MLflow, its SQL store and pandas has 240 MB before it "
    "reads a run; ids, names and values of 100,000 runs take 45, their flows 40, half a million "
    "tested pairs 45, and what is let go on the way lies in pieces too small to be used again.",
    "import and evaluate once": "imports differ by a twentieth from one start to the next.",
    "1,000,000 rows × 10 labels, two workers": "two workers and the driver share two cores.",
    "points of ROC and PR": "nearly all is numpy's sorting, which took a third of this on the "
    "machine before; the peer's took two thirds.",
    "Nemenyi": "it took a third of this on the machine before, and the peer two thirds.",
    "all 124,750 T²": "it took a third of this on the machine before, and the peer two thirds.",
}
HEAD = """# Performance

What work costs beside the best peer on the same data, measured in one run of one script. Seconds
are of CPU, of all processes that take part, unless the row says elapsed; short work is the median
of several calls that take turns with the peer's. A ratio says how many times as long the peer
takes; ours are whole evaluations, with all usual measures, although the peer computes those named
alone. A bound is what a change may not fall below: a ratio, a multiple of the peer's time, or
seconds where there is no peer.

`python examples/scripts/make_performance.py` measures all of it and writes this page;
`--only NAME` measures one benchmark anew and keeps the others. Where a row moved by more than a
quarter since it was measured last, it says what it was. The load is that of the machine before
anything was measured.
"""
TABLE = """
| work | ours | best peer | peer's | ratio | bound | command |
|---|---|---|---|---|---|---|
"""
LACKING = """
## Peers that are not here

- **pyxclib** has no release that a package index offers. `bench_sparse` has its four measures at k
  as a reference in numpy that takes the same steps (the best five of each row, whether they are
  true, sums), without its compiled loops.
- **HEMKit** is a program in C++ that no package index offers, so it is not measured with this page.
  An earlier comparison on one machine found that, built with `-O2`, it takes 5 to 8 times as long
  as the hierarchical measures here.
"""


def processor() -> str:
    """What the machine calls its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions(packages: tuple[str, ...]) -> str:
    """What took part, by name and version."""
    parts = [f"Python {platform.python_version()}"]
    for name in packages:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"without {name}")
    return ", ".join(parts)


def measure(name: str, benchmark: Benchmark) -> list[dict[str, Any]]:
    """The rows of a benchmark that runs now."""
    command = [sys.executable, BENCHMARKS / f"{name}.py", *benchmark.arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, MISSED):
        raise SystemExit(f"{name} failed; nothing of it was taken.")
    return list(map(json.loads, done.stdout.splitlines()))


def reason(row: Row) -> str:
    """Why a row misses its bound."""
    for beginning, text in REASONS.items():
        if row.work.startswith(beginning):
            return text
    return "nobody has found out why."


def seconds(value: float) -> str:
    """Three decimals, or the first two digits of less."""
    return f"{value:.3f} s" if value >= 0.01 else f"{value:.1e} s"


def line(row: Row, command: str) -> str:
    """A row of the page's table."""
    work = f"{row.work} ({row.note})" if row.note else row.work
    ours = seconds(row.ours)
    if row.before is not None and row.has_moved:
        ours += f", **was {seconds(row.before)}**"
    theirs = (seconds(row.theirs), f"{row.ratio:.3g}") if row.peer else ("", "")
    limit = row.limit if row.is_met else f"{row.limit}, **missed**"
    return " | ".join(("", work, ours, row.peer or "none", *theirs, limit, command, "")).strip()


def page(measured: dict[str, Any]) -> str:
    """The guide, of what was measured."""
    text, missed = HEAD, []
    for heading, benchmarks in PARTS.items():
        lines, made_with = [], []
        for name, benchmark in benchmarks.items():
            if name not in measured:
                continue
            command = " ".join(("python", f"tests/benchmarks/{name}.py", *benchmark.arguments))
            rows = [Row(**row) for row in measured[name]["rows"]]
            lines += [line(row, f"`{command}`") for row in rows]
            missed += [(row.work, reason(row)) for row in rows if not row.is_met]
            made_with.append(f"`{name}`: {measured[name]['with']}")
        if lines:
            text += f"\n## {heading}\n{TABLE}" + "\n".join(lines) + "\n\n"
            text += ". ".join(made_with) + ".\n"
    absent = [f"`{name}`" for part in PARTS.values() for name in part if name not in measured]
    if absent:
        text += f"\nNot measured so far: {', '.join(absent)}.\n"
    if missed:
        text += "\n## Bounds that are missed\n\n"
        text += "\n".join(f"- **{work}**: {why}" for work, why in missed) + "\n"
    return text + LACKING


def main() -> None:
    known = {name: of for part in PARTS.values() for name, of in part.items()}
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", nargs="*", choices=known, metavar="NAME")
    parser.add_argument("--rows", nargs=2, action="append", default=[], metavar=("NAME", "FILE"))
    asked = parser.parse_args()
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    load = os.getloadavg()[0]  # before we add to it

    def keep(name: str, rows: list[dict[str, Any]]) -> None:
        last = measured.get(name, {"rows": []})["rows"]
        before = {(row["work"], row["peer"]): row["ours"] for row in last}
        with_ = f"{processor()}, load {load:.1f}, {versions(known[name].packages)}"
        rows = [row | {"before": before.get((row["work"], row["peer"]))} for row in rows]
        measured[name] = {"with": with_, "rows": rows}
        MEASURED.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n")

    for name, file in asked.rows:
        keep(name, list(map(json.loads, Path(file).read_text().splitlines())))
    if asked.only is not None or not asked.rows:
        for name in asked.only if asked.only is not None else known:
            keep(name, measure(name, known[name]))
    GUIDE.write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
