"""How often the tests err: type-I error, coverage and power of the default tests, simulated.

Writes simulation_study.md beside this script, or FILE; with SHARE of the repetitions, above 0. The
whole takes twenty-five minutes, ten of them for autorank, without which its row is missing and the
page says so.

    python examples/studies/simulation_study.py [FILE [SHARE]]
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from simulation_folds import (
    along_profiles,
    next_dataset,
    over_folds,
    over_more_folds,
    over_several_datasets,
    unstable,
    whole_comparisons,
)
from simulation_instances import (
    few_clusters,
    over_clusters,
    over_instances,
    over_repeats,
    run_intervals,
)
from simulation_tables import ALPHA, MOST, Array, Generator, Table, correlated, measured, noise

from mlflow_mleval import (
    bayesian_t,
    bonferroni_dunn,
    equivalence,
    friedman,
    fuse,
    hotelling_pairs,
    max_t,
    nemenyi,
    skillings_mack,
    wilcoxon_pairs,
)

HERE = Path(__file__).resolve().parent
SEED = 0


# Over datasets


def over_datasets(rng: Generator, n: int) -> Table:
    found = Table(
        "Over datasets",
        "Methods that do not differ, on datasets that do (datasets x methods; 12 x 5 where none "
        "are given). Tests of pairs err if they separate any pair, or in the column of two "
        "groups (three methods far above two others) any pair of one group.",
        {
            "unequal spread": (
                "one method varies four times as much as the others; tests on ranks of all "
                "methods assume that they vary alike, and signed ranks of pairs do not"
            ),
            "Iman-Davenport F, 3 datasets": (
                "what the F alone would do; the p-value that counts there is the exact one, in "
                "the row above"
            ),
        },
    )
    designs = {
        "12 x 5": (12, 5, "normal"),
        "skewed": (12, 5, "skewed"),
        "ties": (12, 5, "ties"),
        "11 x 12": (11, 12, "normal"),
        "3 x 3": (3, 3, "normal"),
        "two groups": (12, 5, "normal"),
        "unequal spread": (12, 5, "unequal"),
    }
    for data, (n_datasets, m, kind) in designs.items():
        group = np.arange(m) >= (3 if data == "two groups" else m)
        same = np.equal.outer(group, group) & ~np.eye(m, dtype=bool)
        for _ in range(n):
            table = pd.DataFrame(
                noise(rng, kind, n_datasets, m) + rng.normal(size=(n_datasets, 1)) - 9 * group
            )
            if not group.any():
                overall = friedman(-table)
                found.add("Friedman, chi-square", data, overall.pvalue <= ALPHA)
                found.add(
                    "Friedman: Iman-Davenport, exact if small", data, overall.best_pvalue <= ALPHA
                )
                if data == "3 x 3":
                    found.add(
                        "Iman-Davenport F, 3 datasets", data, overall.iman_davenport_pvalue <= ALPHA
                    )
                gaps = table.mask(rng.random(table.shape) < 0.1)
                if gaps.notna().any().all() and (gaps.notna().sum(axis=1) > 1).any():
                    found.add(
                        "Skillings-Mack, 10% gaps", data, skillings_mack(-gaps).pvalue <= ALPHA
                    )
            found.add("Nemenyi", data, (nemenyi(-table).significant.to_numpy() & same).any())
            found.add(
                "Bonferroni-Dunn",
                data,
                (bonferroni_dunn(-table, 0).significant.to_numpy()[0] & same[0]).any(),
            )
            pairs = wilcoxon_pairs(table).table
            found.add(
                "Wilcoxon + Holm",
                data,
                (pairs["significant"] & same[pairs["method_a"], pairs["method_b"]]).any(),
            )
    return found


def errors(flows: pd.DataFrame, same: Array) -> bool:
    """Whether step-down max-T separates any pair of methods that do not differ."""
    found = max_t(flows).table
    return bool((found["significant"] & same[found["method_a"], found["method_b"]]).any())


def verdicts(rng: Generator, n: int) -> Table:
    found = Table(
        "The verdict of `compare`",
        "Step-down max-T on the net flow of three correlated measures, entropy weights; an error "
        "is any separated pair of methods that do not differ (datasets x methods). Two groups "
        "and ladders are partial nulls: three methods two standard deviations above two others, "
        "or five equal methods below five that climb by a half each. Then 12 x 5 with results "
        "missing for reasons unrelated to quality, by policy: the worst value fills the ranking, "
        "and tests of pairs go by the datasets that both finished.",
        {
            "worst, counted as failure": (
                "not finishing is said to be a failure (`--missing worst:failure`), and here "
                "it is none"
            )
        },
    )
    designs = {
        "12 x 5, skewed": (12, 0 * np.ones(5), "skewed"),
        "12 x 5, ties": (12, 0 * np.ones(5), "ties"),
        "6 x 5, skewed": (6, 0 * np.ones(5), "skewed"),
        "20 x 4": (20, 0 * np.ones(4), "normal"),
        "unequal spread": (12, 0 * np.ones(5), "unequal"),
        "two groups": (12, np.array([2.0, 2, 2, 0, 0]), "normal"),
        "two groups, skewed": (12, np.array([2.0, 2, 2, 0, 0]), "skewed"),
        "ladder, 11 x 10": (11, np.r_[np.zeros(5), np.arange(1, 6) / 2], "normal"),
    }
    for data, (n_datasets, quality, kind) in designs.items():
        same = np.equal.outer(quality, quality) & ~np.eye(len(quality), dtype=bool)
        for _ in range(n):
            shared = noise(rng, kind, n_datasets, len(quality))[..., None]
            values = (
                quality[:, None] + shared + 0.5 * rng.normal(size=(n_datasets, len(quality), 3))
            )
            found.add("complete", data, errors(fuse(measured(values)).phi, same))
    same = ~np.eye(5, dtype=bool)
    for data, lacking, share in (
        ("one lacks 30%", [0], 0.3),
        ("two lack 30%", [0, 1], 0.3),
        ("all lack 10%", range(5), 0.1),
    ):
        for _ in range(n):
            values = noise(rng, "normal", 12, 5)[..., None] + 0.5 * rng.normal(size=(12, 5, 3))
            for method in lacking:
                values[rng.random(12) < share, method] = np.nan
            study = measured(values)
            if study.finished().sum(axis=1).min() == 0:
                continue
            phi = fuse(study).phi
            found.add(
                "worst, left out of tests of pairs", data, errors(phi.where(study.finished()), same)
            )
            found.add("worst, counted as failure", data, errors(phi, same))
            if study.finished().all(axis=1).sum() > 1:
                found.add(
                    "drop-datasets", data, errors(fuse(study.complete("drop-datasets")).phi, same)
                )
    return found


def specialists(rng: Generator, n: int) -> Table:
    found = Table(
        "Entropy weights and specialists",
        "One method is four standard deviations better on one of four measures and as much "
        "worse on another; the others are "
        "ordinary and alike. How often it is separated, above them, from any of them (12 "
        "datasets).",
        {
            "entropy weights": (
                "entropy weights prefer what is uneven, and the specialist's measures are; the "
                "report doubts such "
                "a lead where equal weights do not share it"
            )
        },
    )
    for m in (4, 8):
        for _ in range(n):
            values = rng.normal(size=(12, m, 4))
            values[:, 0, 0] += 4
            values[:, 0, 1] -= 4
            for weights in ("entropy", "equal"):
                pairs = max_t(fuse(measured(values), weights=weights).phi).significant_pairs
                found.add(
                    f"{weights} weights", f"{m} methods", any(better == 0 for better, _ in pairs)
                )
    return found


# Beyond p-values


def intervals(rng: Generator, n: int) -> Table:
    found = Table(
        "Equivalence, and intervals of differences",
        "Three methods on twelve datasets, or two over ten normal folds that correlate by .1, "
        "which differ by just the "
        "margin.",
    )
    for kind in ("normal", "skewed"):
        data = f"12 datasets, {kind}"
        for _ in range(n):
            table = pd.DataFrame(noise(rng, kind, 12, 3) + 2 * np.arange(3.0), columns=list("abc"))
            found.add(
                "equivalence, any pair (Holm)",
                data,
                equivalence(table, rope=2.0).table["equivalent"].any(),
            )
    for _ in range(n):
        table = pd.DataFrame(correlated(rng, 2, 1)[..., 0].T).add([0.0, 3.0])
        found.add(
            "equivalence, any pair (Holm)",
            "10 folds",
            equivalence(table, 3.0, ratio=1 / 9).table["equivalent"].any(),
        )
    return found


def bayesian(rng: Generator, n: int) -> Table:
    none = (
        "no error rate is claimed: without a rope, each side reaches a probability of .95 in "
        "5% of cases"
    )
    found = Table(
        "Bayesian decisions",
        "How often one of two methods is taken for better with probability .95, by rope and "
        "true difference in standard "
        "deviations of the values, over 20 datasets and over ten normal folds that correlate by "
        ".1.",
        {"rope 0, difference 0": none},
    )
    for rope, shift in ((0.0, 0.0), (0.5, 0.0), (0.5, 0.5)):
        data = f"rope {rope:g}, difference {shift:g}".replace("0.", ".")
        for _ in range(n):
            ahead = np.array([shift, 0.0])
            table, folds = rng.normal(size=(20, 2)) + ahead, correlated(rng, 2, 1)[..., 0].T + ahead
            decided = {
                "20 datasets": bayesian_t(table, rope),
                "ten folds": bayesian_t(folds, rope, ratio=1 / 9),
            }
            for name, result in decided.items():
                found.add(name, data, result.table["decision"].isin(["a", "b"]).any())
    return found


def rank_sets(rng: Generator, n: int) -> Table:
    found = Table(
        "Sets of ranks",
        "The ranks that step-down max-T leaves possible err if any set misses a rank of its "
        "method; methods of one group do not differ, and groups differ by a standard deviation.",
    )
    designs = [("12 datasets, 5 methods", 12, 5, 2), ("50 datasets, 30 methods", 50, 30, 3)]
    for data, n_datasets, m, groups in designs:
        for kind, n_groups, on in (
            ("normal", 1, "values"),
            ("normal", groups, "values"),
            ("skewed", 1, "values"),
            ("skewed", 1, "ranks"),
            ("unequal", 1, "values"),
        ):
            group = np.arange(m) * n_groups // m
            low, high = (
                np.searchsorted(group, group) + 1,
                np.searchsorted(group, group, side="right"),
            )
            name = (
                f"{kind}{' spread' if kind == 'unequal' else ''}, {n_groups} "
                f"group{'s' * (n_groups > 1)}, {on}"
            )
            for _ in range(2 * n if (kind, n_groups) == ("normal", 1) else n):
                table = pd.DataFrame(
                    noise(rng, kind, n_datasets, m) + rng.normal(size=(n_datasets, 1)) - group
                )
                table = table.rank(axis=1) if on == "ranks" else table
                test = max_t(table, n_resamples=499, seed=int(rng.integers(2**31)))
                apart = np.array(test.significant_pairs, dtype=int).reshape(-1, 2)
                ahead, behind = (np.bincount(side, minlength=m) for side in apart.T)
                found.add(
                    name.replace(f"{n_groups} group", "several group") if n_groups > 1 else name,
                    data,
                    ((1 + behind > low) | (m - ahead < high)).any(),
                )
    return found


# Power

DIFFERENCES = {
    "one up, one down: their sum stays": [1, -1],
    "both up": [1, 1],
    "one of two": [1, 0],
    "one of four": [1, 0, 0, 0],
}


def power(rng: Generator, n: int) -> pd.DataFrame:
    """How often two methods that differ are told apart, by difference and its size in standard
    errors of a mean difference.
    """
    rows = []
    for difference, shift in DIFFERENCES.items():
        for size in (2.0, 4.0):
            hits = defaultdict(list)
            for _ in range(n):
                x = correlated(rng, 2, len(shift))
                x[0] += size * np.array(shift) * np.sqrt(2 * (0.1 + 0.9 / 10))
                tests = hotelling_pairs(x, ratio=1 / 9)
                mean = hotelling_pairs(x.mean(axis=2, keepdims=True), ratio=1 / 9)
                hits["T²"].append(tests.table["pvalue"].item() <= ALPHA)
                hits["t of the measures' mean"].append(mean.table["pvalue"].item() <= ALPHA)
                hits["t of each, Holm"].append(tests.posthoc_corrected.min(axis=None) <= ALPHA)
                hits["t of the first"].append(tests.posthoc_pvalues.iloc[0, 0] <= ALPHA)
            rows.append(
                {
                    "difference": difference,
                    "size": size,
                    **{name: np.mean(hit) for name, hit in hits.items()},
                }
            )
    return pd.DataFrame(rows)


def autorank_pairs(table: pd.DataFrame) -> int | None:
    """How many pairs the defaults of autorank separate (Herbold 2020), in the right direction; None
    where it is not installed.

    Methods are better the larger their number. It takes Friedman and Nemenyi, or where nothing
    looks abnormal repeated-measures ANOVA with Tukey's intervals, which separate where they do not
    overlap.
    """
    try:
        from autorank import autorank
    except ImportError:
        return None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        result = autorank(
            table.set_axis([f"m{i}" for i in table.columns], axis=1), alpha=ALPHA, verbose=False
        )
    if result.pvalue >= ALPHA:
        return 0
    frame = result.rankdf.loc[[f"m{i}" for i in table.columns]]
    if result.posthoc == "tukeyhsd":
        low, high = frame["ci_lower"].to_numpy(), frame["ci_upper"].to_numpy()
        return sum(high[i] < low[j] for i in range(len(frame)) for j in range(i + 1, len(frame)))
    mean = frame["meanrank"].to_numpy()
    return sum(
        mean[i] - mean[j] > result.cd for i in range(len(frame)) for j in range(i + 1, len(frame))
    )


def power_over_datasets(rng: Generator, n: int) -> pd.DataFrame:
    """What share of pairs that differ is found, by test, for ten methods on eleven datasets that
    climb by a step each.
    """
    found = defaultdict(list)
    for kind in ("normal", "skewed", "heavy tails"):
        for step in (0.2, 0.4):
            for _ in range(n):
                spread = (
                    rng.standard_t(3, (11, 10))
                    if kind == "heavy tails"
                    else noise(rng, kind, 11, 10)
                )
                table = pd.DataFrame(step * np.arange(10) + spread + rng.normal(size=(11, 1)))
                tests = {
                    "max-T (default)": max_t(table.div(np.ptp(table.to_numpy(), axis=1), axis=0)),
                    "Wilcoxon + Holm": wilcoxon_pairs(table),
                    "Nemenyi": nemenyi(-table),
                }
                counts = {
                    name: sum(a > b for a, b in result.significant_pairs)
                    for name, result in tests.items()
                }
                if (count := autorank_pairs(table)) is not None:
                    counts["autorank's default"] = count
                for name, count in counts.items():
                    found[name, f"{kind}, step {step:g}"].append(count / 45)
    return pd.Series({key: np.mean(shares) for key, shares in found.items()}).unstack(sort=False)


def power_over_datasets_markdown(found: pd.DataFrame, n: int) -> list[str]:
    rows = [
        f"| {test} | {' | '.join(f'{x:.2f}'.lstrip('0') for x in row)} |"
        for test, row in found.iterrows()
    ]
    return [
        "## Power over datasets",
        "",
        "Share of the 45 pairs of ten methods that a test finds on eleven datasets, by one "
        "measure; each method is a step, in "
        "standard deviations, better than the one before it.",
        "",
        f"| test | {' | '.join(found.columns)} |",
        "|---|" + "---|" * len(found.columns),
        *rows,
        "",
        f"{n:,} repetitions; standard errors are at most {0.5 / np.sqrt(n):.3f}.",
        "",
        "autorank (Herbold 2020) takes repeated-measures ANOVA with Tukey's intervals where "
        "nothing looks abnormal, else "
        "Friedman and Nemenyi."
        + " **Its row is missing: it was not installed.**"
        * ("autorank's default" not in found.index),
        "",
    ]


#: What is simulated, and how often.
TABLES: dict[Callable[[Generator, int], Table], int] = {
    over_datasets: 4000,
    verdicts: 500,
    over_folds: 800,
    over_more_folds: 400,
    whole_comparisons: 150,
    over_instances: 600,
    intervals: 1500,
    bayesian: 600,
    rank_sets: 1000,
    over_several_datasets: 150,
    unstable: 400,
    next_dataset: 60,
    specialists: 300,
    over_repeats: 300,
    run_intervals: 1000,
    over_clusters: 400,
    along_profiles: 300,
    few_clusters: 2000,
}
POWER, POWER_OVER_DATASETS = 1500, 400


def power_markdown(found: pd.DataFrame, n: int) -> list[str]:
    rows = []
    for difference, size, *rates in found.itertuples(index=False):
        rows.append(
            f"| {difference} | {size:g} | "
            f"{' | '.join(f'{rate:.2f}'.lstrip('0') for rate in rates)} |"
        )
    return [
        "## Power over folds",
        "",
        "Two methods over ten normal folds that correlate by .1; the measures correlate by .5. "
        "Sizes of the differences are in "
        "standard errors of a mean difference; all tests are corrected for shared training data.",
        "",
        f"| {' | '.join(found.columns)} |",
        "|---|" + "---|" * (len(found.columns) - 1),
        *rows,
        "",
        f"{n:,} repetitions; standard errors are at most {0.5 / np.sqrt(n):.3f}.",
        "",
        "T² sees what the measures say together: a difference against their correlation, which "
        "their mean (the error, say, of "
        "false positives and false negatives) cannot show at all. Where all measures move "
        "alike, or only the one that would have "
        "been tested anyway, a single t test of the right measure is stronger: T² pays for "
        "looking in all directions.",
        "",
    ]


ABOUT = f"""# How often the tests err

Simulated error rates, written by `python examples/studies/simulation_study.py` (seed {SEED}). Every rate is the share of repetitions in
which a test at α = {ALPHA} found a difference that is not there, or an interval at 95% missed. **Bold** rates are above {MOST} by
more than two standard errors; *slanted* ones are of tests or data for which no such rate is claimed, with the reason below the
table.

"""  # noqa: E501
FINDINGS = """## What to take from it

- Over datasets every default holds its level, `compare` also where results are missing and where some methods differ: filled
  results are left out of tests of pairs, for with them these err up to three times as often as they say. Weights by entropy
  put a specialist above ordinary methods, which equal weights do not. The Iman-Davenport F does not hold it with two to six
  datasets, which is why `friedman` counts all orders there. One method that varies much more than the others disturbs tests
  on the ranks of all methods (Friedman, Nemenyi, Bonferroni-Dunn), not signed ranks of pairs.
- Of pairs that differ over datasets, max-T finds as many as autorank's default or more, on normal, skewed and heavy-tailed values
  alike, and far more than signed ranks with Holm's correction. Nemenyi finds as many where all steps are small.
- Over the folds of one cross-validation the corrected tests stay far below 5% for stable learners and below it for nearest
  neighbours. They do not for a learner that chooses one feature: what it chooses depends on the data as a whole, which all
  folds share, and no test on folds of one set of data can see how much that varies. The uncorrected tests err up to four
  times as often as they say.
- Over repeated and resampled folds the plain correction is exact where folds correlate as it assumes (the last column), but
  leaves no room for more: nearest neighbours are told apart in about 10% of cases, the learner that chooses in 20%. So
  `compare_folds` takes twice the ratio there, which makes repeated folds worth as much as one cross-validation: repeating does
  not make a test on the same instances more certain. The F test for five times twofold cross-validation of one
  measure has the same trouble. The uncorrected tests find differences in most cases where there are none.
- Over the folds of several datasets the tests hold their level because they are corrected over pairs and datasets together;
  corrected within each dataset only, some pair was separated in 43% of studies with ten.
- Stumps are told apart in up to 28% of cases on one 10-fold cross-validation. The doubt about folds whose models disagree is told
  in a third to three fifths of such studies, and in about 2% of those of stable learners: its silence proves nothing.
- Over instances all tests hold their level; sign and signed-rank tests are about more than means.
- Tests over instances that belong together hold their level where `--cluster` says which do; otherwise they separate equal
  methods in two thirds of studies. Folds of a cross-validation are such clusters, if a claim is to be about training again;
  over single instances the tests are about the models of these folds, and say so.
- Intervals of a run's measures (ci_low, ci_high) miss in 3 to 6% at 95%: means over instances, micro and macro averages and
  ranking measures alike, from 100 instances on, and with clusters where these are given. Where they are not, they miss in a
  quarter to a third.
- With few or unequal clusters the intervals of differences and of a run's measures miss in 3 to 5%, the usual ones by
  cluster-robust errors in up to a quarter. Of skewed values they miss in 8% there, and a doubt says so.
- Over repeats Welch's test holds its level with three to eight each.
- Along loss profiles the tests err as often as they say, and far less where folds are repeated.
- Equivalence tests, intervals of means, and sets of ranks err as often as they say or less.
  Bayesian decisions are no tests: without a rope they prefer one of two equal methods in 10% of cases.
"""  # noqa: E501


def main(path: Path, share: float) -> None:
    # of the two seeds before this table one was of a table that left, one is the power's
    first = list(TABLES).index(over_several_datasets) + 1
    seeds = [
        # of the thirteenth table that there was nothing is left, but for its seed
        np.random.SeedSequence(SEED, spawn_key=(i + 2 * (i + 1 >= first) + (i >= 13),))
        for i in range(len(TABLES))
    ]
    text = []
    for (study, n), seed in zip(TABLES.items(), seeds, strict=True):
        start = time.perf_counter()
        text += study(np.random.default_rng(seed), max(2, round(n * share))).markdown()
        print(f"{study.__name__}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    n = max(2, round(POWER * share))
    text += power_markdown(
        power(np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(first,))), n), n
    )
    n = max(2, round(POWER_OVER_DATASETS * share))
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(first + 1,)))
    text += power_over_datasets_markdown(power_over_datasets(rng, n), n)
    path.write_text(ABOUT + FINDINGS + "\n" + "\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *[HERE / "simulation_study.md", "1"][len(sys.argv) - 1 :]]
    main(Path(arguments[0]), float(arguments[1]))
