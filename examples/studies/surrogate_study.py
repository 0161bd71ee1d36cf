"""Which loss to train for which target: the nearest-neighbour study of Hüllermeier et al. 2022
(section 6, Figure 4).

    python examples/studies/surrogate_study.py [-o FILE.md] [--repeats N] [FOLDER [DATASET ...]]

FOLDER holds sets as Mulan offers them, NAME.xml with NAME.arff or with NAME-train.arff and
NAME-test.arff; by default birds, emotions, flags, scene and yeast are read from it. Without FOLDER
a small version runs on noisy digits that scikit-learn ships, labelled by the segments that a
seven-segment display would light, in under a minute. `NearestNeighbourMinimiser` predicts for each
binomial loss k, and each k is a run of the store that MLFLOW_TRACKING_URI names (by default
mlflow.db in the working folder). The tables are read from these runs: a study that was stopped goes
on where it stopped. FILE.md gets the findings.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from real_data_study import DATASETS, read_mulan
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.model_selection import BaseCrossValidator, RepeatedKFold
from sklearn.preprocessing import minmax_scale

import mlflow_mleval as mleval
from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.losses import NearestNeighbourMinimiser

EXPERIMENT, SEED, ALPHA = "surrogates", 0, 0.05
METHOD = "surrogate k="
#: Losses that differ by less are equal: sums of the same losses in another order do.
NOISE = 1e-12
#: Segments a to g that are lit for 0, 1, …, 9.
SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcfgd")


def noisy_digits() -> tuple[np.ndarray, np.ndarray]:
    """600 images under so much noise that neighbours disagree, and which of seven segments would
    show the digit.
    """
    images, digits = load_digits(return_X_y=True)
    images = images[:600] + np.random.default_rng(SEED).normal(0, 12, (600, 64))
    return images, np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits[:600]]
    ).astype(int)


@dataclass(frozen=True)
class SurrogateStudy:
    """Mean losses, surrogate k x target k, and by target: ``surrogate`` (of least mean loss), its
    ``loss``, ``equal`` (all of that mean loss) and ``not_separated`` (those that may be the best).
    """

    losses: pd.DataFrame
    best: pd.DataFrame
    n_folds: int

    @property
    def behind(self) -> pd.DataFrame:
        """How much larger each loss is than that of the best surrogate for the target."""
        behind = self.losses - self.losses.min()
        return behind.mask(behind <= NOISE, 0.0)

    @property
    def sentences(self) -> list[str]:
        """What the study found, in words."""
        best = self.best
        parts = []
        for equal, group in groupby(best.index, key=lambda target: best.loc[target, "equal"]):
            alike = " alike" if len(equal) > 1 else ""
            parts.append(f"k = {spans(equal, ', ')}{alike} for {targets(list(group))}")
        listed = " and ".join([", ".join(parts[:-1]), parts[-1]]) if parts[1:] else parts[0]
        beaten = [t for t in best.index if t not in best.loc[t, "not_separated"]]
        who, where = ("some other", f" for {targets(beaten)}") if beaten else ("no", "")
        low, high = best["not_separated"].map(len).agg(["min", "max"])
        few = str(low) if low == high else f"{low} to {high}, depending on the target,"
        return [
            f"The surrogate of least mean loss is {listed}.",
            f"Over {self.n_folds} folds (α = {f'{ALPHA:g}'[1:]} for each target), {who} surrogate "
            f"is shown to be better than the target's own loss{where}.",
            f"Of {len(self.losses)} surrogates, {few} may be the best.",
        ]


def surrogate_study(
    X: np.ndarray, Y: np.ndarray, dataset: str, folds: BaseCrossValidator, n_neighbors: int = 9
) -> SurrogateStudy:
    """Train for every binomial loss that has no run yet, then read all of them."""
    n_labels = Y.shape[1]
    methods = {k: f"{METHOD}{k:0{len(str(n_labels))}d}" for k in range(1, n_labels + 1)}
    held = runs_of(dataset)
    done = [] if held is None else held.methods
    missing = [k for k, method in methods.items() if method not in done]
    splits = list(folds.split(X))
    learner = NearestNeighbourMinimiser(n_neighbors)
    predicted = [
        learner.fit(X[train], Y[train]).predict_all(X[test], missing)
        for train, test in splits
        if missing
    ]
    tests = [test for _, test in splits]
    for i, k in enumerate(missing):
        evaluation = mleval.evaluate(
            Y[np.concatenate(tests)],
            y_pred=np.concatenate([fold[i] for fold in predicted]),
            folds=np.repeat(np.arange(len(tests)), [len(test) for test in tests]),
            instances=False,
        )
        mleval.log_evaluation(
            evaluation,
            method=methods[k],
            dataset=dataset,
            experiment_name=EXPERIMENT,
            test_indices=tests,
            n_train=[len(train) for train, _ in splits],
        )
    by_fold = runs_of(dataset).by_fold(dataset, parameters=list(methods))
    by_fold = by_fold.rename(index={method: k for k, method in methods.items()}, level=0)
    n_train = sum(len(train) for train, _ in splits)
    best = best_surrogates(by_fold.sort_index(), sum(map(len, tests)) / n_train)
    return SurrogateStudy(by_fold.groupby(level=0).mean(), best, len(splits))


def runs_of(dataset: str) -> Any:
    """The loss profiles of the runs that there are, None without any."""
    try:
        return mleval.load_profiles(experiment_names=[EXPERIMENT], datasets=[dataset])
    except NoRunsError:
        return None


def best_surrogates(by_fold: pd.DataFrame, ratio: float) -> pd.DataFrame:
    """The surrogate of least mean loss for each target, and those that the folds do not separate
    from the best, from losses with the index (surrogate, fold) and a column a target.

    A surrogate is separated where some other one is better by a one-sided paired t test over the
    folds, corrected for training data that folds share (Nadeau & Bengio 2003; `ratio` is n_test /
    n_train) and for the number of other surrogates (Bonferroni). So the surrogate that is truly
    best is among those not separated with a probability of at least 1 - ALPHA, even though the one
    of least mean was chosen by these same folds. A difference that is the same on every fold
    separates nothing: its uncertainty is not known.
    """
    surrogates = by_fold.index.unique(0).to_numpy()
    losses = by_fold.to_numpy().reshape(len(surrogates), -1, by_fold.shape[1])
    n_folds = losses.shape[1]
    rows = []
    for target in range(losses.shape[2]):
        difference = losses[:, None, :, target] - losses[None, :, :, target]
        deviation = difference.std(axis=2, ddof=1)
        error = deviation * np.sqrt(1 / n_folds + ratio)
        certain = deviation > NOISE
        t = np.where(certain, difference.mean(axis=2) / np.where(certain, error, 1), -np.inf)
        p = stats.t.sf(t.max(axis=1), n_folds - 1) * (len(surrogates) - 1)
        mean = losses[:, :, target].mean(axis=1)
        equal = surrogates[mean <= mean.min() + NOISE]
        least = mean[surrogates == equal[0]].item()
        rows.append((equal[0], least, tuple(equal), tuple(surrogates[p > ALPHA])))
    columns = ["surrogate", "loss", "equal", "not_separated"]
    return pd.DataFrame(rows, by_fold.columns.rename("target"), columns)


def spans(numbers: Sequence[int], between: str = " ") -> str:
    """Whole numbers with neighbours joined: 1–3 5 7 8."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return between.join(
        f"{run[0]}–{run[-1]}" if len(run) > 2 else between.join(map(str, run)) for run in runs
    )


def targets(ks: Sequence[int]) -> str:
    return f"target{'s' if len(ks) > 1 else ''} {spans(ks, ', ')}"


def studies(
    folder: Path | None, names: list[str], repeats: int
) -> Iterator[tuple[str, str, SurrogateStudy]]:
    """Dataset, scaling and study: features as they are, and scaled to 0..1."""
    for name in names if folder else ["noisy digits"]:
        X, Y = read_mulan(folder, name) if folder else noisy_digits()
        folds = RepeatedKFold(n_splits=10, n_repeats=repeats, random_state=SEED)
        for scaling, features in (("as they are", np.asarray(X)), ("scaled", minmax_scale(X))):
            dataset = name if scaling == "as they are" else f"{name}, scaled"
            yield name, scaling, surrogate_study(features, np.asarray(Y), dataset, folds)


# ---- what the paper says of Figure 4, asked of the runs ------------------------------------------


def worst_first(study: SurrogateStudy) -> list[int]:
    """Surrogates by falling loss where subset 0/1 is the target."""
    return (
        study.losses[study.losses.columns[-1]]
        .sort_values(ascending=False, kind="stable")
        .index.tolist()
    )


def rises(study: SurrogateStudy) -> tuple[bool, str]:
    best = study.best["surrogate"].tolist()
    return bool(np.all(np.diff(best) >= 0)), " ".join(map(str, best))


def hamming_is_bad(study: SurrogateStudy) -> tuple[bool, str]:
    place, K = worst_first(study).index(1) + 1, len(study.losses)
    sure = ", sure" if 1 not in study.best.loc[K, "not_separated"] else ""
    return place <= 2, f"place {place} of {K} from the worst{sure}"


def saturates(study: SurrogateStudy) -> tuple[bool, str]:
    last, K = study.best["surrogate"].iloc[-1], len(study.losses)
    return bool(last < K), f"at most k = {study.best['surrogate'].max()} of {K}"


def exceeds(study: SurrogateStudy) -> tuple[bool, str]:
    """Whether the best surrogate is above the target for some target."""
    above = [f"{s} for {t}" for t, s in study.best["surrogate"].items() if s > t]
    return bool(above), ", ".join(above) or "never"


def subset_is_worst(study: SurrogateStudy) -> tuple[bool, str]:
    order, K = worst_first(study), len(study.losses)
    sure = ", sure" if K not in study.best.loc[K, "not_separated"] else ""
    return order[0] == K, f"place {order.index(K) + 1} of {K} from the worst{sure}"


#: Claim, the datasets that it names (None: all), and how it is asked of a study.
CLAIMS = [
    ("The best surrogate k rises with the target k", None, rises),
    (
        "With subset 0/1 as the target, Hamming is one of the two worst surrogates",
        None,
        hamming_is_bad,
    ),
    ("The best surrogate saturates early, below K", None, saturates),
    (
        "The best surrogate slightly exceeds the target for some targets",
        ("emotions", "scene", "flags"),
        exceeds,
    ),
    (
        "Subset 0/1 is the worst surrogate even where it is the target",
        ("birds", "flags"),
        subset_is_worst,
    ),
]


def claims_table(found: list[tuple[str, str, SurrogateStudy]]) -> list[str]:
    lines = [
        "| the paper says | data set | features as they are | features scaled to 0..1 |",
        "|---|---|---|---|",
    ]
    names = list(dict.fromkeys(name for name, _, _ in found))
    by_key = {(name, scaling): study for name, scaling, study in found}
    for claim, about, ask in CLAIMS:
        for name in names:
            if about is None or name in about or not set(names) & set(DATASETS):
                answers = [ask(by_key[name, scaling]) for scaling in ("as they are", "scaled")]
                cells = [
                    f"{'**yes**' if holds else '**no**'}: {figures}" for holds, figures in answers
                ]
                lines.append(f"| {claim} | {name} | {' | '.join(cells)} |")
    return lines


def heatmap_table(study: SurrogateStudy) -> list[str]:
    """The heatmap in numbers: target by surrogate, thousandths behind the best, a dot from .02
    on.
    """
    behind = (1000 * study.behind).round().astype(int).T
    lines = [
        f"| target ↓ surrogate → | {' | '.join(map(str, behind.columns))} | loss of the best | "
        "may be the best |",
        "|---" * (len(behind.columns) + 3) + "|",
    ]
    for target, row in behind.iterrows():
        best = study.best.loc[target]
        cells = [
            "·" if v >= 20 else f"**{v}**" if k == best["surrogate"] else str(v)
            for k, v in row.items()
        ]
        lines.append(
            f"| {target} | {' | '.join(cells)} | {best['loss']:.3f} | "
            f"{spans(best['not_separated'])} |"
        )
    return lines


def write(path: Path, found: list[tuple[str, str, SurrogateStudy]], repeats: int) -> None:
    lines = [
        "# Which loss to train for which target",
        "",
        "Hüllermeier et al. (2022, section 6) let a nearest-neighbour classifier minimise the "
        "binomial loss for each k and",
        "measure the result by the loss for each k. Made by `examples/studies/surrogate_study.py`, "
        "from runs: 9 neighbours by L1",
        "distance, 10-fold "
        f"cross-validation{f' repeated {repeats} times' if repeats > 1 else ''}, seed {SEED}.",
        "",
        "Figure 4 of the paper is a picture without numbers, and the paper tells neither its "
        "folds, nor whether features were",
        "scaled, nor how ties were broken. So the figure cannot be compared number by number; "
        "what the text says of it can be",
        "asked of the runs. A place or a best surrogate is that of the mean losses; **sure** "
        "stands where a one-sided test over",
        f"the folds finds some other surrogate better (α = {ALPHA:g}, corrected for "
        "shared training data and for the",
        "number of surrogates). Ties between label sets go to the first one in the order of 0s "
        "and 1s.",
        "",
        "## What the paper says of Figure 4, and what the runs say",
        "",
        *claims_table(found),
        "",
        "## The heatmaps in numbers",
        "",
        "Thousandths of loss behind the best surrogate for the target; a dot for 20 and more, "
        "which is where the paper clips.",
        "The last column lists the surrogates that the folds do not separate from the best one.",
    ]
    for name, scaling, study in found:
        lines += [
            "",
            f"### {name}, features {scaling}",
            "",
            *study.sentences,
            "",
            *heatmap_table(study),
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("datasets", nargs="*", default=[])
    parser.add_argument("-o", dest="output", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    found = []
    for name, scaling, study in studies(args.folder, args.datasets or list(DATASETS), args.repeats):
        print(f"{name}, features {scaling}:", *study.sentences, "", sep="\n", flush=True)
        found.append((name, scaling, study))
    print(*claims_table(found), sep="\n")
    if args.output:
        write(args.output, found, args.repeats)


if __name__ == "__main__":
    main()
