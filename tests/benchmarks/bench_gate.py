"""What a gate costs beyond reading: of 10,000 answers and eight measures at most .5 s, of 1,000,000
and two at most 2.5 s.

python tests/benchmarks/bench_gate.py
"""

import time

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.gate_tests import Differences, Terms, Verdict, gate_tests

N, MEASURES = 10_000, 8


def main() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((N, MEASURES)) < 0.8, rng.random((N, MEASURES)) < 0.8
    names = [f"m{i}" for i in range(MEASURES)]
    frame = pd.DataFrame(scores[0].astype(float) - scores[1], columns=names)
    bounds, directions = dict.fromkeys(names, 1.0), dict.fromkeys(names, "max")
    parts = {f"part {k}": np.arange(N) % 10 == k for k in range(10)}
    clusters = np.arange(N) // 20
    many = rng.random((1_000_000, 2)) / 5 - 0.1, rng.choice([-1.0, 0.0, 1.0], (1_000_000, 2))
    large = [pd.DataFrame(d, columns=names[:2]) for d in many]
    for what, units, anytime in (
        ("answers", Differences(frame, bounds=bounds), False),
        ("ten slices", Differences(frame, parts, bounds=bounds), False),
        ("500 clusters", Differences(frame, clusters=clusters, bounds=bounds), False),
        ("by bets", Differences(frame, bounds=bounds), True),
        ("1,000,000", Differences(large[0], bounds=dict.fromkeys(names[:2], 1.0)), False),
        ("of 0 and 1", Differences(large[1], bounds=dict.fromkeys(names[:2], 1.0)), False),
    ):
        start = time.process_time()
        tests = gate_tests(units, Terms(dict.fromkeys(units.differences, 0.01), anytime=anytime))
        tested = time.process_time() - start
        verdict = Verdict(
            candidate="a", champion="b", tests=tests, over="answers", directions=directions
        )
        verdict.to_dict(), verdict.to_html(), str(verdict)
        told = time.process_time() - start - tested
        print(f"{what:14} tests {tested:.2f} s, words and page {told:.2f} s of CPU")


if __name__ == "__main__":
    main()
