"""The simulation study over folds: of one dataset and of several, repeated and resampled ones, and
the next dataset.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from simulation_tables import ALPHA, Array, Generator, Table, correlated

from mlflow_mleval import (
    Study,
    compare,
    compare_folds,
    five_by_two,
    hotelling_pairs,
    manova,
    mardia,
)
from mlflow_mleval.analysis.hierarchical_t import hierarchical_pairs
from mlflow_mleval.analysis.loss_profiles import Profiles, compare_profiles

N_INSTANCES = 100
#: Of the posterior, for each of two methods on several datasets.
DRAWS = 4_000
#: Folds of one repetition, repetitions, and n_test / n_train.
PROTOCOLS = {
    "10-fold": (10, 1, 1 / 9),
    "10 times 10-fold": (10, 10, 1 / 9),
    "30 splits 90:10": (10, 30, 1 / 9),
    "5 times twofold": (2, 5, 1.0),
}


def splits(rng: Generator, protocol: str) -> Array:
    """The test instances of every fold, folds x instances; half of them are positive, which
    instances 0 to 49 are.
    """
    k, times, _ = PROTOCOLS[protocol]
    half, found = N_INSTANCES // 2, []
    for _ in range(times):
        order = np.concatenate(
            [rng.permutation(half).reshape(k, -1), half + rng.permutation(half).reshape(k, -1)],
            axis=1,
        )
        found.append(order[:1] if protocol.startswith("30") else order)
    return np.concatenate(found)


def nearest_mean(x: Array, y: Array, train: Array, test: Array) -> Array:
    means = [x[:, train & (y == label)].mean(axis=1, keepdims=True) for label in (0, 1)]
    near, far = (((x[:, test] - mean) ** 2).sum(axis=2) for mean in means)
    return far < near


def nearest_neighbours(x: Array, y: Array, train: Array, test: Array, k: int = 1) -> Array:
    distance = (x[:, train] ** 2).sum(axis=2)[:, None] - 2 * x[:, test] @ x[:, train].transpose(
        0, 2, 1
    )
    return y[train][np.argpartition(distance, k, axis=2)[..., :k]].mean(axis=2) > 0.5


def best_feature(x: Array, y: Array, train: Array, test: Array) -> Array:
    right = ((x[:, train] > 0) == (y[train] == 1)[:, None]).sum(axis=1)
    return x[:, test][np.arange(len(x)), :, right.argmax(axis=1)] > 0


#: Predictions of a learner for the test instances. The last one chooses the sign of the feature
#: that predicts the training data best, and all folds of a set of data share the choice.
LEARNERS: dict[str, Callable[..., Array]] = {
    "nearest mean": nearest_mean,
    "5-NN": lambda *args: nearest_neighbours(*args, k=5),
    "1-NN": nearest_neighbours,
    "best feature": best_feature,
}


def cross_validated(rng: Generator, learner: str, protocol: str, m: int = 4) -> Array:
    """Error, tpr and fpr of m methods on data that are drawn anew, methods x folds x 3.

    All methods are the same learner, each on six features of its own, which are distributed alike:
    none is better than another.
    """
    y = np.repeat([1, 0], N_INSTANCES // 2)
    x = rng.normal(size=(m, N_INSTANCES, 6)) + 0.5 * rng.normal(size=(N_INSTANCES, 1))
    x += (y[:, None] - 0.5) * np.linspace(0.2, 1.0, 6)
    rows = []
    for test in splits(rng, protocol):
        train = np.ones(N_INSTANCES, dtype=bool)
        train[test] = False
        predicted = LEARNERS[learner](x, y, train, test)
        tpr, fpr = (predicted[:, y[test] == label].mean(axis=1) for label in (1, 0))
        rows.append(np.stack([(1 - tpr + fpr) / 2, tpr, fpr], axis=1))
    return np.stack(rows, axis=1)


NAIVE = (
    "without correction for shared training data: not made over repeated folds, and beside the "
    "corrected test over others"
)
BOUND = "Roy's p is a lower bound, as in other programs, and decides nothing"
STUDENT = (
    "the paper's test on a measure learned from the same folds; the row above allows for the "
    "learning"
)
PLAIN = "stands beside the headline of `compare_folds`, which takes twice the ratio for such folds"
CHOOSES = (
    "a learner that chooses a feature and a threshold: no test on the folds of one dataset sees "
    "how much that varies"
)


def t_tests(
    found: Table,
    data: str,
    x: Array,
    error: Array,
    ratio: float,
    prefix: str = "",
    twice: bool = False,
) -> None:
    """The paired t test of one measure and T² of several, every pair by itself and all
    corrected.
    """
    kinds = {"corrected": (ratio, PLAIN if twice else ""), "naive": (None, NAIVE)}
    kinds |= {"twice the ratio": (2 * ratio, "")} if twice else {}
    for kind, (shared, remark) in kinds.items():
        for name, values in (("paired t", error), ("T²", x)):
            test = f"{prefix}{name}, {kind}"
            table = hotelling_pairs(values, ratio=shared).table
            found.add(test, data, (table["pvalue"] <= ALPHA).mean())
            if len(values) > 2 and not remark:
                found.add(f"{test}, any pair (Holm)", data, table["significant"].any())
            if remark:
                found.remarks[test] = remark


def several_methods(found: Table, data: str, x: Array, ratio: float) -> None:
    """MANOVA, and the tests on what it learns."""
    result = manova(x, ratio=ratio)
    for name, pvalue in result.table["pvalue"].items():
        found.add(f"MANOVA, {name.replace('_', '-').title()}", data, pvalue <= ALPHA)
    found.add("MANOVA, Wilks, naive", data, manova(x).pvalue <= ALPHA)
    tests = result.learned.tests(ALPHA)
    first = tests[tests["learned"] == "M1"]
    found.add("learned measure M1, any pair (Holm)", data, first["significant"].any())
    found.add(
        "learned measure M1, Student's t", data, len(first) * first["pvalue_naive"].min() <= ALPHA
    )
    found.remarks |= {
        "MANOVA, Roy": BOUND,
        "MANOVA, Wilks, naive": NAIVE,
        "learned measure M1, Student's t": STUDENT,
    }


def over_folds(rng: Generator, n: int) -> Table:
    found = Table(
        "Over the folds of one cross-validation",
        "Ten folds. First cross-validation itself: four methods that are the same learner, each "
        f"on features of its own that are distributed alike, {N_INSTANCES} instances, drawn anew "
        "in every repetition; errors for the paired t test, (tpr, fpr) for the others. Then "
        "normal values of 4 methods and 3 measures, and of 2 and 4, that correlate between folds "
        "by"
        " .1, for which the correction is made.",
    )
    for learner in LEARNERS:
        for repetition in range(n):
            values = cross_validated(rng, learner, "10-fold")
            t_tests(found, learner, values[..., 1:], values[..., :1], 1 / 9)
            if repetition % 2:
                several_methods(found, learner, values[..., 1:], 1 / 9)
    for m, p in ((4, 3), (2, 4)):
        data = f"normal, {m} x {p}"
        for _ in range(n):
            x = correlated(rng, m, p)
            t_tests(found, data, x, x[..., :1], 1 / 9)
            unpaired = hotelling_pairs(x, ratio=1 / 9, paired=False).table
            found.add("T², corrected, unpaired", data, (unpaired["pvalue"] <= ALPHA).mean())
            if m > 2:
                several_methods(found, data, x, 1 / 9)
            found.add("Mardia", data, mardia(x).pvalue <= ALPHA)
    return found


def over_more_folds(rng: Generator, n: int) -> Table:
    found = Table(
        "Over the folds of other designs",
        "The same learners and data, and four methods of which normal values of two measures "
        "correlate between all folds by .1.",
    )
    for protocol, (k, times, ratio) in list(PROTOCOLS.items())[1:]:
        n_folds = times if protocol.startswith("30") else k * times
        for data in (*LEARNERS, "normal"):
            for _ in range(n):
                values = (
                    correlated(rng, 4, 3, n_folds)
                    if data == "normal"
                    else cross_validated(rng, data, protocol)
                )
                error, x = values[..., :1], values[..., 1:]
                if protocol == "5 times twofold":
                    for name, of in (("F test of the error", error), ("F test of (tpr, fpr)", x)):
                        found.add(
                            f"{protocol}: {name}",
                            data,
                            (five_by_two(of).table["pvalue"] <= ALPHA).mean(),
                        )
                else:
                    t_tests(found, data, x, error, ratio, f"{protocol}: ", twice=True)
    return found


def over_several_datasets(rng: Generator, n: int) -> Table:
    by_itself = "corrected over the pairs of each dataset only"
    found = Table(
        "Over the folds of several datasets",
        "Four methods that do not differ, on ten folds of each of several datasets; two normal "
        "measures that correlate by .5, and between folds by .1. An error is any pair on any "
        "dataset.",
        {
            f"T², {by_itself}": (
                "what the tests did before: the more datasets, the more often some pair is "
                "separated by chance"
            )
        },
    )
    for n_datasets in (2, 10):
        index = pd.MultiIndex.from_product(
            [range(n_datasets), list("abcd"), range(10)], names=["dataset", "method", "fold"]
        )
        for _ in range(n):
            values = np.stack([correlated(rng, 4, 2) for _ in range(n_datasets)])
            folds = pd.DataFrame(values.reshape(-1, 2), index, ["precision", "recall"])
            study = Study(
                folds.groupby(level=[0, 1]).mean(), dict.fromkeys(folds, "max"), folds=folds
            )
            data, together = (f"{n_datasets} datasets", compare(study).folds.values())
            found.add(
                "T², corrected over pairs and datasets",
                data,
                any(one.pairs["separated"].any() for one in together),
            )
            found.add(
                f"T², {by_itself}",
                data,
                any(hotelling_pairs(x, ratio=1 / 9).table["significant"].any() for x in values),
            )
    return found


def stump(x: Array, y: Array, train: Array, test: Array) -> Array:
    """A decision stump: the feature, threshold and direction that predict the training data
    best.
    """
    order = np.argsort(x[:, train], axis=1)
    label = 2.0 * y[train] - 1
    below = np.cumsum(label[order], axis=1)
    gain = label.sum() - 2 * below[:, :-1]
    best = np.abs(gain).reshape(len(x), -1).argmax(axis=1)
    at, feature = np.unravel_index(best, gain.shape[1:])
    method, ordered = np.arange(len(x)), np.take_along_axis(x[:, train], order, axis=1)
    threshold = (ordered[method, at, feature] + ordered[method, at + 1, feature]) / 2
    return (x[:, test][method, :, feature] - threshold[:, None]) * np.sign(
        gain[method, at, feature]
    )[:, None] > 0


def unstable(rng: Generator, n: int) -> Table:
    told = "told that the models disagree"
    found = Table(
        "Learners that choose",
        "T² of (tpr, fpr) as `compare_folds` makes it on one 10-fold cross-validation of two "
        "methods that are the same learner, each on features of its own that are distributed "
        "alike (instances x features), half of the instances positive; and how often the page "
        "tells that the models of the folds disagree.",
        {
            told: (
                "no error, but how often the doubt is told: for stable learners by chance, "
                "which is to be about 1%"
            ),
            **dict.fromkeys(["stump, 200 x 6", "stump, 1,000 x 6", "stump, 1,000 x 2"], CHOOSES),
        },
    )
    designs = {
        "nearest mean, 200 x 6": (nearest_mean, 200, 6),
        "5-NN, 200 x 6": (LEARNERS["5-NN"], 200, 6),
        "stump, 200 x 6": (stump, 200, 6),
        "stump, 1,000 x 6": (stump, 1000, 6),
        "stump, 1,000 x 2": (stump, 1000, 2),
    }
    index = pd.MultiIndex.from_product(
        [["d"], ["a", "b"], range(10)], names=["dataset", "method", "fold"]
    )
    for data, (learner, size, features) in designs.items():
        half, y = size // 2, np.repeat([1, 0], size // 2)
        known = {"split_digest": "s", "n_train": size * 9 // 10, "n_test": size // 10}
        runs = pd.DataFrame({"dataset": "d", "method": ["a", "b"], **known})
        for _ in range(n):
            x = rng.normal(size=(2, size, features)) + 0.5 * (y[:, None] - 0.5)
            order = np.concatenate(
                [
                    rng.permutation(half).reshape(10, -1),
                    half + rng.permutation(half).reshape(10, -1),
                ],
                axis=1,
            )
            rows = []
            for test in order:
                train = np.ones(size, dtype=bool)
                train[test] = False
                predicted = learner(x, y, train, test)
                tp, fp = (predicted[:, y[test] == label].sum(axis=1) for label in (1, 0))
                rows.append(np.stack([tp, fp, half // 10 - tp, half // 10 - fp], axis=1))
            folds = pd.DataFrame(
                np.stack(rows, axis=1).reshape(-1, 4).astype(float), index, ["tp", "fp", "fn", "tn"]
            )
            ways = {"tp": "max", "fp": "min", "fn": "min", "tn": "max"}
            study = Study(folds.groupby(level=[0, 1]).mean(), ways, folds=folds, runs=runs)
            result = compare_folds(study, "d", ["tpr", "fpr"])
            found.add("T², corrected", data, result.pairs["separated"].any())
            found.add(
                told, data, any("models of the folds disagree" in text for text in result.warnings)
            )
    return found


def next_dataset(rng: Generator, n: int) -> Table:
    claims = {
        "P(better) or P(worse) above .95": (
            "no error rate is claimed: this is how often equal methods reach it"
        )
    }
    found = Table(
        "On the next dataset",
        "The hierarchical correlated t test of two methods, over ten folds, which correlate by "
        ".1, of several datasets. Their "
        "true differences are normal about a typical one with standard deviation .02, and folds "
        "about these with .03; rope .01. "
        "How often the 95% interval misses the typical difference, or (on average) the true "
        "difference of a dataset.",
        claims,
    )
    for n_datasets in (8, 20):
        for typical in (0.0, 0.02):
            data = f"{n_datasets} datasets, difference {typical:g}"
            true = rng.normal(typical, 0.02, (n, n_datasets))
            shared, own = rng.normal(size=(n, n_datasets, 1)), rng.normal(size=(n, n_datasets, 10))
            x = true[..., None] + 0.03 * (np.sqrt(0.1) * shared + np.sqrt(0.9) * own)
            tables = {
                str(k): {d: pd.DataFrame({"a": row, "b": 0.0}) for d, row in enumerate(one)}
                for k, one in enumerate(x)
            }
            by_name = {
                "ropes": dict.fromkeys(tables, 0.01),
                "directions": dict.fromkeys(tables, "max"),
            }
            together = hierarchical_pairs(
                tables, rho=dict.fromkeys(range(n_datasets), 0.1), **by_name
            )
            for truth, result in zip(true, together.values(), strict=True):
                row, rows = result.table.iloc[0], result.shrunken
                found.add(
                    "95% interval of the typical difference, misses",
                    data,
                    not row["low"] <= typical <= row["high"],
                )
                missed = (truth < rows["low"]) | (truth > rows["high"])
                found.add("95% intervals of the datasets, misses", data, missed.mean())
                if not typical:
                    found.add(next(iter(claims)), data, max(row["p_better"], row["p_worse"]) > 0.95)
    return found


def whole_comparisons(rng: Generator, n: int) -> Table:
    found = Table(
        "`compare_folds` as it is called",
        "With the sizes of the folds recorded; the interval misses the error that the learner "
        "has on average over all data.",
    )
    names, measures = list("abcd"), ["hamming_loss", "tpr", "fpr"]
    for protocol, learner in (
        ("10-fold", "nearest mean"),
        ("10-fold", "5-NN"),
        ("10 times 10-fold", "nearest mean"),
    ):
        k, times, _ = PROTOCOLS[protocol]
        index = pd.MultiIndex.from_product(
            [["d"], names, range(k * times)], names=["dataset", "method", "fold"]
        )
        test, data, means = N_INSTANCES // k, f"{protocol}, {learner}", []
        known = {"split_digest": "s", "n_train": N_INSTANCES - test, "n_test": test}
        runs = pd.DataFrame({"dataset": "d", "method": names, **known})
        for _ in range(n):
            folds = pd.DataFrame(
                cross_validated(rng, learner, protocol).reshape(-1, 3), index, measures
            )
            study = Study(
                folds.groupby(level=[0, 1]).mean(),
                dict.fromkeys(measures, "min"),
                folds=folds,
                runs=runs,
            )
            found.add(
                "any pair on (tpr, fpr)",
                data,
                compare_folds(study, "d", measures[1:]).pairs["separated"].any(),
            )
            means.append(compare_folds(study, "d", measures[:1]).means)
        truth = np.mean([m["mean"] for m in means])
        for m in means:
            found.add(
                "95% interval of a mean error, misses",
                data,
                ((truth < m["low"]) | (truth > m["high"])).mean(),
            )
    return found


def along_profiles(rng: Generator, n: int) -> Table:
    """Loss profiles of methods that do not differ, tested fold by fold at every k."""
    found = Table(
        "Along loss profiles",
        "Three methods that do not differ, six labels, folds of 30 instances whose numbers of "
        "wrong labels are beta-binomial; "
        "their losses correlate between folds by about .1. An error is any pair that is "
        "separated anywhere along the profile.",
    )
    for data, n_folds in (("10-fold", 10), ("10 times 10-fold", 100)):
        runs = pd.DataFrame(
            {
                "dataset": "d",
                "method": list("abc"),
                "split_digest": "s",
                "n_train": 270,
                "n_test": 30,
            }
        )
        for _ in range(n):
            counts = {}
            for m in "abc":
                logit = np.log(0.25 / 0.75) + 0.081 * rng.normal()
                p = 1 / (1 + np.exp(-logit))
                wrong = rng.binomial(6, rng.beta(4 * p, 4 * (1 - p), (n_folds, 30)))
                counts["d", m] = (wrong[..., None] == np.arange(7)).sum(axis=1)
            result = compare_profiles(Profiles.from_counts(counts, runs=runs))
            found.add("any pair anywhere", data, bool(result.certain_stretches("d")))
    return found
