"""The simulation study over instances: tests of pairs, clusters, cross-validation, and intervals of
one run's measures.

As a script it prints how tests over few instances with skewed differences err, by sign changes
alone and together with the score test (DRAWS of each, by default 500; a quarter of an hour):

    python examples/studies/simulation_instances.py [DRAWS]
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from scipy import special
from simulation_tables import ALPHA, Array, Generator, Table, noise

from mlflow_mleval import evaluate, instance_tests
from mlflow_mleval.stats import measure_intervals, repeat_tests


def predictions(rng: Generator, n_instances: int, m: int) -> dict[str, pd.DataFrame]:
    """Measures by instance of m equally good methods for six labels: instances differ in
    difficulty, and many values tie.
    """
    truth = rng.random((n_instances, 6)) < 0.3
    hard = rng.beta(0.5, 3.0, (n_instances, 1))
    found = {}
    for name in "abcdefgh"[:m]:
        predicted = truth ^ (rng.random(truth.shape) < hard)
        both, either = (truth & predicted).sum(axis=1), truth.sum(axis=1) + predicted.sum(axis=1)
        found[name] = pd.DataFrame(
            {
                "hamming_loss": (truth ^ predicted).mean(axis=1),
                "f1": 2 * both / np.maximum(either, 1),
                "subset_accuracy": (truth == predicted).all(axis=1).astype(float),
            }
        )
    return found


def other_shapes(rng: Generator, n_instances: int) -> dict[str, pd.DataFrame]:
    """The same mean loss, by one method small everywhere, by the other large on a tenth of the
    instances.
    """
    rare = np.where(rng.random(n_instances) < 0.1, 0.9, 0.0) + rng.uniform(0, 0.02, n_instances)
    return {
        name: pd.DataFrame({"hamming_loss": v})
        for name, v in (("a", rng.uniform(0.08, 0.12, n_instances)), ("b", rare))
    }


def over_instances(rng: Generator, n: int) -> Table:
    found = Table(
        "Over instances",
        "Three methods that predict six labels equally well, and three measures of which many "
        "values tie; an error is any pair on any measure. In the last column two methods have "
        "the same mean loss.",
        {
            "1,000, other shapes": (
                "means agree, but the loss of one is small everywhere and that of the other "
                "large on few instances: sign and signed-rank tests compare more than means, and "
                "rightly reject"
            )
        },
    )
    for data, n_instances in (
        ("100 instances", 100),
        ("1,000 instances", 1000),
        ("1,000, other shapes", 1000),
    ):
        for _ in range(n):
            methods = (
                other_shapes(rng, n_instances)
                if "shapes" in data
                else predictions(rng, n_instances, 3)
            )
            result = instance_tests(
                methods, list(methods["a"]), n_resamples=999, seed=int(rng.integers(2**31))
            )
            found.add("sign test + Holm", data, (result.table["sign_corrected"] <= ALPHA).any())
            found.add("Wilcoxon + Holm", data, (result.table["wilcoxon_corrected"] <= ALPHA).any())
            found.add("permutations, maximum over measures", data, result.pairs["separated"].any())
            found.add("permutations, single measures", data, result.table["separated"].any())
    return found


TOGETHER = "what belongs together counts as if it did not"


def over_clusters(rng: Generator, n: int) -> Table:
    """Instances that belong together, and those of one fold, which one model of a method judged."""
    found = Table(
        "Over instances that belong together",
        "Three methods with the same mean; half of the variance of a value is that of its method "
        "in the cluster; an error is any pair. Folds of a cross-validation as clusters: one "
        "model judged all of a fold.",
        {
            "permutations, clusters ignored": TOGETHER,
            "permutations, instances of folds": (
                "the default says so: it is about the models of these folds, and tells which "
                "separations the folds do not confirm"
            ),
        },
    )
    for data, sizes in (
        ("40 clusters of 10", np.full(40, 10)),
        ("40 clusters of 1 to 60", rng.geometric(0.1, 40).clip(1, 60)),
        ("10 folds of 60", np.full(10, 60)),
    ):
        of = np.repeat(np.arange(len(sizes)), sizes)
        ignored = (
            "permutations, instances of folds"
            if "folds" in data
            else "permutations, clusters ignored"
        )
        for _ in range(n):
            values = {m: rng.normal(size=len(sizes))[of] + rng.normal(size=len(of)) for m in "abc"}
            methods = {m: pd.DataFrame({"hamming_loss": v}) for m, v in values.items()}
            options = {"n_resamples": 999, "seed": int(rng.integers(2**31))}
            for test, groups in (("permutations, clusters given", of), (ignored, None)):
                result = instance_tests(methods, ["hamming_loss"], clusters=groups, **options)
                found.add(test, data, result.pairs["separated"].any())
    return found


#: Of whose intervals the coverage is simulated: means over instances, micro, macro and ranking
#: measures.
INTERVALS = [
    "f1",
    "subset_accuracy",
    "hamming_loss",
    "micro_precision",
    "micro_recall",
    "micro_f1",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "one_error",
    "coverage",
    "ranking_loss",
    "average_precision",
]
IGNORED = ["f1", "micro_f1", "macro_f1"]


def labelled(
    rng: Generator, n_instances: int, n_labels: int, size: int
) -> tuple[Array, Array, Array]:
    """Truth, scores, and to which cluster of `size` instances each belongs."""
    of = np.arange(n_instances) // size
    return *alike_in_clusters(rng, of, n_labels), of


def alike_in_clusters(rng: Generator, of: Array, n_labels: int) -> tuple[Array, Array]:
    """Truth and scores; the instances of a cluster share labels and difficulty."""
    easy, taste = (
        rng.gamma(2.0, 0.5, of[-1] + 1)[of, None],
        rng.normal(size=(of[-1] + 1, n_labels))[of],
    )
    liking = 0.6 * taste + 0.8 * rng.normal(size=taste.shape)
    truth = liking > np.linspace(0.0, 1.4, n_labels)
    return truth, special.expit(2.0 * truth - 1 + rng.normal(size=truth.shape) / easy)


def run_intervals(rng: Generator, n: int) -> Table:
    """Intervals of one run's measures: ci_low and ci_high."""
    found = Table(
        "Intervals of one run's measures",
        "How often ci_low to ci_high at 95% misses what the same models would reach on endlessly "
        "many instances (instances x labels): 3 to 7% is the goal. Clusters of ten instances "
        "share labels and difficulty. Areas under curves, Matthews' correlation and loss "
        "profiles have no interval, and the run says so.",
        {f"{m}, clusters ignored": TOGETHER for m in IGNORED},
    )
    designs = [
        ("100 x 6", 100, 6, 1),
        ("1,000 x 6", 1000, 6, 1),
        ("1,000 x 20", 1000, 20, 1),
        ("300 x 6 in 30 clusters", 300, 6, 10),
        ("1,000 x 6 in 100", 1000, 6, 10),
    ]
    for data, n_instances, n_labels, size in designs:
        many = labelled(rng, 200_000 if n > 99 else 2_000, n_labels, size)
        true = evaluate(many[0], many[1]).measures
        for _ in range(n):
            truth, score, of = labelled(rng, n_instances, n_labels, size)
            ev = evaluate(truth, score)
            for clusters, name in (
                ((None, "{}"),) if size == 1 else ((of, "{}"), (None, "{}, clusters ignored"))
            ):
                table = measure_intervals(ev, clusters=clusters).table
                for m in INTERVALS if name == "{}" else IGNORED:
                    low, high = table.loc[m, ["ci_low", "ci_high"]]
                    if low <= high:
                        found.add(name.format(m), data, not low <= true[m] <= high)
    return found


#: Sizes of clusters that are few, or of which one is as large as all others together.
UNEQUAL = {"50 + 10 x 5": [50, *[5] * 10], "100 + 20 x 5": [100, *[5] * 20], "12 x 8": [8] * 12}
ROBUST = "difference, cluster-robust errors and t"


def few_clusters(rng: Generator, n: int) -> Table:
    """Intervals where clusters are few or of unequal size: of a difference of two methods, and of
    one run's measures.
    """
    found = Table(
        "Intervals with few or unequal clusters",
        "How often intervals at 95% miss the truth where the clusters are one of 50 instances "
        "and ten of 5, and so on. Half of the variance of a difference is the cluster's; "
        "measures of one run as above, with six labels.",
        {
            ROBUST: (
                "what is usual, beside the interval that is told: the differences that the sign "
                "changes do not reject"
            ),
            "50 + 10 x 5, skewed": (
                "exponential values: sign changes take for granted that differences are "
                "symmetric, and a doubt is told"
            ),
        },
    )
    measures = ["f1", "subset_accuracy", "hamming_loss", "micro_f1", "ranking_loss"]
    many = np.arange(200_000 if n > 99 else 2_000) // 5
    true = evaluate(*alike_in_clusters(rng, many, 6)).measures
    for data in (*UNEQUAL, "50 + 10 x 5, skewed"):
        sizes = np.array(UNEQUAL[data.removesuffix(", skewed")])
        of = np.repeat(np.arange(len(sizes)), sizes)
        for _ in range(n):
            parts = [
                noise(rng, "skewed" if "skewed" in data else "normal", size, 1)[:, 0]
                for size in (len(sizes), len(of))
            ]
            d = parts[0][of] + parts[1]
            methods = {"a": pd.DataFrame({"f1": d}), "b": pd.DataFrame({"f1": np.zeros(len(d))})}
            tests = instance_tests(
                methods, ["f1"], clusters=of, n_resamples=999, seed=int(rng.integers(2**31))
            )
            found.add(
                "difference, as it is told",
                data,
                not tests.table["low"].item() <= 0 <= tests.table["high"].item(),
            )
            sums = np.bincount(of, d - d.mean())
            error = np.sqrt(sums @ sums * len(sizes) / (len(sizes) - 1)) / len(d)
            found.add(ROBUST, data, abs(d.mean()) > special.stdtrit(len(sizes) - 1, 0.975) * error)
            if "skewed" in data:
                continue
            table = measure_intervals(evaluate(*alike_in_clusters(rng, of, 6)), clusters=of).table
            for m in measures:
                found.add(
                    f"{m} of one run",
                    data,
                    not table.loc[m, "ci_low"] <= true[m] <= table.loc[m, "ci_high"],
                )
    return found


def over_repeats(rng: Generator, n: int) -> Table:
    found = Table(
        "Over repeats",
        "Three methods that do not differ, trained with so many seeds each; of single tests the "
        "share of the three pairs on which they err. Where the spread is unequal, the first "
        "method varies four times as "
        "much as the others.",
    )
    for kind, numbers in (
        ("normal", (3, 3, 3)),
        ("normal", (5, 5, 5)),
        ("normal", (3, 5, 8)),
        ("skewed", (5, 5, 5)),
        ("skewed", (3, 5, 8)),
        ("unequal", (5, 5, 5)),
        ("unequal", (3, 5, 8)),
        ("unequal", (8, 5, 3)),
    ):
        data = f"{kind}, {', '.join(map(str, numbers))}"
        for _ in range(n):
            values = noise(rng, kind, max(numbers), 3)
            methods = {
                f"m{k}": pd.DataFrame({"x": values[:size, k]}) for k, size in enumerate(numbers)
            }
            table = repeat_tests(methods, maximize=["x"]).table
            found.add("Welch's t", data, (table["pvalue"] <= ALPHA).mean())
            found.add("Welch's t, any pair (Holm)", data, table["separated"].any())
    return found


# Skewed differences of few instances: sign changes alone, and together with the score test.

#: Numbers of instances, or of clusters of five.
NUMBERS = (10, 30, 60, 200, 1000)


def erratic(rng: Generator, n: int, share: float, p: int = 1) -> Array:
    """Values in [0, 1] with mean a half: a share fails altogether, on all measures at once."""
    fails = (rng.random(n) < share)[:, None]
    middle = 0.5 / (1 - share)
    return np.where(fails, 0.0, middle + rng.uniform(-0.02, 0.02, (n, p)))


def steady(rng: Generator, n: int, p: int = 1) -> Array:
    """Values with the same mean that differ little."""
    return 0.5 + rng.uniform(-0.02, 0.02, (n, p))


def skewed(rng: Generator, kind: str, n: int) -> tuple[dict[str, Array], Array | None]:
    """By method its values, instances x measures, all with the same mean; and clusters."""
    if kind == "an exponential cut":
        cut = np.minimum(rng.exponential(0.25, (n, 1)), 1.0)
        return {"a": cut - 0.25 * (1 - np.exp(-4.0)) + 0.5, "b": np.full((n, 1), 0.5)}, None
    if kind == "0/1, 20% changed":
        changed = rng.choice([0.0, 1.0, 2.0], (n, 1), p=[0.1, 0.8, 0.1])
        return {"a": (changed > 0.5) * 1.0, "b": (changed < 1.5) * 1.0}, None
    if "methods" in kind:
        of = np.repeat(np.arange(n), 5) if "clusters" in kind else None
        found = {f"e{k}": erratic(rng, n, 0.05, 3) for k in range(2)}
        found |= {f"s{k}": steady(rng, n, 3) for k in range(2)}
        return {m: v if of is None else v[of] for m, v in found.items()}, of
    share = float(kind.partition("%")[0]) / 100
    return {"a": erratic(rng, n, share), "b": steady(rng, n)}, None


def better(rng: Generator, kind: str, n: int) -> tuple[dict[str, Array], None]:
    """As `skewed`, but the first method is better by what sign changes of one pair find in .8."""
    if kind == "0/1, 20% changed":
        gain = min(2.8 * np.sqrt(0.2 / n), 0.19)
        shares = [(0.2 - gain) / 2, 0.8, (0.2 + gain) / 2]
        changed = rng.choice([0.0, 1.0, 2.0], (n, 1), p=shares)
        return {"a": (changed > 0.5) * 1.0, "b": (changed < 1.5) * 1.0}, None
    if kind == "F1 of answers":
        latent = 0.8 * rng.normal(size=(n, 1)) + 0.6 * rng.normal(size=(n, 2))
        values = special.ndtr(latent / 0.4).round(1)  # most are 0 or 1
        gain = 2.8 * (values[:, 0] - values[:, 1]).std() / np.sqrt(n)
        values[rng.random(n) < 2 * gain, 0] = 1.0
        return {"a": values[:, :1], "b": values[:, 1:]}, None
    m, p = (2, 1) if kind == "a tenth of the range" else (4, 3)
    common = rng.normal(0, 0.07, (n, 1))
    values = [0.5 + common + rng.normal(0, 0.1, (n, p)) for _ in range(m)]
    values[0] = values[0] + 2.8 * 0.1 * np.sqrt(2 / n)
    return {f"m{k}": v.clip(0, 1) for k, v in enumerate(values)}, None


def separates(
    found: tuple[dict[str, Array], Array | None], bounds: float | None, seed: int
) -> bool:
    """Whether any pair is separated; of those that the first method is in, where it is better."""
    methods, of = found
    names = [f"measure_{k}" for k in range(next(iter(methods.values())).shape[1])]
    tables = {m: pd.DataFrame(v, columns=names) for m, v in methods.items()}
    tests = instance_tests(
        tables, names, maximize=names, clusters=of, bounds=bounds, n_resamples=999, seed=seed
    )
    return bool(tests.table["separated"].any())


def few_skewed(rng: Generator, n: int) -> list[str]:
    """Shares of draws with a separated pair, by sign changes alone and by the larger of both."""
    errors = (
        *("0/1, 20% changed", "5% lose all", "10% lose all", "an exponential cut"),
        *("four methods, three measures, 5%", "the same in clusters of five"),
    )
    powers = (
        *("0/1, 20% changed", "F1 of answers", "a tenth of the range"),
        "four methods, three measures, a tenth",
    )
    lines = [
        f"| | {' | '.join(f'{each:,}' for each in NUMBERS)} |",
        "|---|" + "---|" * len(NUMBERS),
    ]
    for made, kinds in ((skewed, errors), (better, powers)):
        word = "error" if made is skewed else "found"
        for kind in kinds:
            name = "four methods, clusters" if "same in" in kind else kind
            cells = []
            for size in NUMBERS:
                hits = np.zeros(2)
                for _ in range(n):
                    values, seed = made(rng, name, size), int(rng.integers(2**31))
                    hits += [separates(values, bound, seed) for bound in (None, 1.0)]
                cells.append(", ".join(f"{hit / n:.3f}".lstrip("0") for hit in hits))
            lines.append(f"| {word}: {kind} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print("\n".join(few_skewed(np.random.default_rng(0), draws)))
