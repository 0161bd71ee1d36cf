"""Time and memory of the hierarchical measures on synthetic and real hierarchies.

    python tests/benchmarks/bench_hierarchical.py

Timed is `instance_measures` from Python lists of class names to the table of instances, everything
included but the making of the `Hierarchy`. Memory is the peak of tracemalloc beside the input, in a
run of its own. The synthetic graphs have 1.4 parents a class: "recursive" draws parents from all
classes that came before (up to 38 levels, 97 ancestors a class), "layered" from the layer above (8
levels, 20 ancestors). Truth and prediction are drawn independently, which is the hardest case:
nearly all pairs of classes differ and meet far up. Bounds: those stated for the project; the
extended LCA may take three times as long as the set- and pair-based measures may. The real
hierarchies are read from ../shared/data/hmc if it is there; a prediction is the truth of another
instance.
"""

from __future__ import annotations

import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
from timing import best

from mlflow_mleval.measures.hierarchical import instance_measures
from mlflow_mleval.measures.hierarchy import Hierarchy

DATA = Path(__file__).parents[3] / "shared" / "data" / "hmc"


def recursive(n, seed=0, parents=1.4):
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    second = child[rng.random(n - 1) < parents - 1]
    edges = [np.stack([(rng.random(len(c)) * c).astype(int), c], 1) for c in (child, second)]
    return np.unique(np.concatenate(edges), axis=0).tolist()


def layered(n, seed=0, parents=1.4, depth=8):
    rng = np.random.default_rng(seed)
    share = np.geomspace(1, n, depth)
    bounds = np.rint(np.cumsum(share) / share.sum() * n).astype(int)
    bounds[0] = 1
    edges = []
    for before, lo, hi in zip([0, *bounds[:-2]], bounds[:-1], bounds[1:], strict=True):
        child = np.arange(lo, hi)
        for c in (child, child[rng.random(len(child)) < parents - 1]):
            edges.append(np.stack([rng.integers(before, lo, len(c)), c], 1))
    return np.unique(np.concatenate(edges), axis=0).tolist()


def report(name, h, true, pred, families, seconds=None, memory=None, repeats=5, **options):
    """Print a line; whether a bound was missed."""

    def call():
        return instance_measures(true, pred, h, measures=families, **options)

    took = best(call, repeats=repeats)[0]
    tracemalloc.start()
    table = call()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    missed = (seconds is not None and took > seconds) or (memory is not None and peak > memory)
    what = "+".join(families) + (f" {options['lca']}" if "lca" in options else "")
    bounds = (
        f"{seconds or '-':>6} s {took / seconds if seconds else float('nan'):6.2f}",
        f"{memory or '-':>6} MB",
    )
    verdict = "MISSED" if missed else "ok" if seconds or memory else ""
    if "lca_exact" in table and (cut := int((table["lca_exact"] == 0).sum())):
        verdict += f" ({cut} of {len(table)} searches cut short)"
    print(
        f"{name:34} {what:13} {took:7.2f} s {bounds[0]} {peak:7.0f} MB {bounds[1]}  {verdict}",
        flush=True,
    )
    return missed


def real():
    """Name, hierarchy and class lists of each real data set."""
    for path in sorted(DATA.glob("*rain.arff")):
        text = path.read_text()
        classes = (
            re.search(r"^@attribute\s+class\s+hierarchical\s+(.*)$", text, re.M | re.I)[1]
            .strip()
            .split(",")
        )
        if "GO" in path.name:
            h = Hierarchy([edge.split("/") for edge in classes])
        else:
            h = Hierarchy.from_paths(classes)
        rows = text[re.search(r"^@data", text, re.M | re.I).end() :].split("\n")
        yield (
            path.stem,
            h,
            [row.rsplit(",", 1)[1].strip().split("@") for row in rows if row.strip()],
        )


def main():
    print(
        f"{'hierarchy':34} {'measures':13} {'time':>9} {'bound':>8} {'ratio':>6} {'peak':>10} "
        f"{'bound':>9}"
    )
    missed = False
    for n, instances, seconds, memory in ((10_000, 20_000, 1, 300), (300_000, 50_000, 7, 1000)):
        for make in (recursive, layered):
            h = Hierarchy(make(n), nodes=range(n))
            true, pred = np.random.default_rng(1).integers(0, n, (2, instances, 3)).tolist()
            name, repeats = f"{make.__name__} {n:,} x {instances:,}", 5 if n < 1e5 else 3
            missed |= report(name, h, true, pred, ["set", "pair"], seconds, memory, repeats)
            missed |= report(
                name, h, true, pred, ["lca"], 3 * seconds, memory, repeats, lca="extended"
            )
            if n < 1e5:
                missed |= report(name, h, true, pred, ["lca"], 20, memory, 2, lca="minimal")
    n, instances = 27_900, 5_000
    h = Hierarchy(recursive(n), nodes=range(n))
    true, pred = np.random.default_rng(1).integers(0, n, (2, instances, 12)).tolist()
    for families, options in (
        (["set", "pair"], {}),
        (["lca"], {"lca": "extended"}),
        (["lca"], {"lca": "minimal"}),
    ):
        report(
            f"recursive {n:,} x {instances:,}, 12 labels",
            h,
            true,
            pred,
            families,
            repeats=1,
            **options,
        )
    diamonds = Hierarchy(
        [e for i in range(40) for e in ((i, (i, 0)), (i, (i, 1)), ((i, 0), i + 1), ((i, 1), i + 1))]
    )
    for lca in ("extended", "minimal"):
        missed |= report(
            "40 diamonds, 2^40 paths, 1",
            diamonds,
            [[40, (20, 0)]],
            [[0]],
            ["set", "pair", "lca"],
            1,
            lca=lca,
        )
    if not DATA.exists():
        print(f"no real hierarchies: {DATA} is not there")
    for name, h, sets in real():
        pred = [sets[i] for i in np.random.default_rng(0).permutation(len(sets))]
        for families, options in (
            (["set", "pair"], {}),
            (["lca"], {"lca": "extended"}),
            (["lca"], {"lca": "minimal"}),
        ):
            report(f"{name} {len(h):,} x {len(sets):,}", h, sets, pred, families, **options)
    return missed


if __name__ == "__main__":
    sys.exit(main())
