"""How the folds of runs came about, what that means for a test over them, and whether those of two
methods are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.analysis.folds.covariance import checked_ratio
from mlflow_mleval.validation import one_of

PROTOCOLS = ("k-fold", "repeated", "resampled", "5x2", "independent")
#: More folds than this, and it may well be repeated cross-validation.
MANY_FOLDS = 10
UNPAIRED = "the folds of these two are not the same (their split digests differ)"


@dataclass(frozen=True)
class Protocol:
    """How R folds came about.

    Attributes
    ----------
    kind : "k-fold", one cross-validation; "repeated", several with new splits; "resampled", random splits (or training sets of
        other sizes); "5x2", five times twofold; or "independent", training sets without anything in
        common.
    ratio : n_test / n_train of a fold, which corrects the tests; None for independent folds.
    known : False where it was assumed, for nothing was recorded.
    reason : What it was recognised by, in a sentence.
    """  # noqa: E501

    kind: str
    n_folds: int
    ratio: float | None
    known: bool
    reason: str

    @property
    def naive_refused(self) -> str:
        """Why a test that ignores shared training data may not be made; empty where it may."""
        if self.kind in ("k-fold", "independent"):
            return ""
        return (
            f"{self.kind} cross-validation tests the same instances again: the uncorrected test "
            "finds differences where there are none in most cases, and is not made"
        )

    @property
    def headline_ratio(self) -> float | None:
        """The ratio that corrects the headline tests: twice n_test / n_train where folds test the
        same instances again.
        """
        return (
            2 * self.ratio if self.ratio and self.kind in ("repeated", "resampled") else self.ratio
        )

    @property
    def caution(self) -> str:
        """How far even the corrected tests err in simulations, and what helps; empty where they do
        not.
        """
        if self.kind in ("k-fold", "independent"):
            return ""
        if self.kind == "5x2":
            return (
                "The F test takes the five repetitions for independent, though they test the "
                "same instances: at α = .05 it told equal learners apart in up to 11% of "
                "simulations (4% with two measures together)."
            )
        return (
            "The folds test the same instances again, so the tests are corrected by twice n_test "
            "/ n_train: with the plain ratio they told equal learners apart in up to 11% of "
            "simulations with nearest neighbours at α = .05, and with twice the ratio in less "
            "than 5%."
        )


def protocol_of(
    n_folds: int,
    n_train: ArrayLike | None = None,
    n_test: ArrayLike | None = None,
    *,
    kind: str | None = None,
    ratio: float | None = None,
) -> Protocol:
    """Recognise how folds came about from the sizes of their parts (of each fold, or of all alike),
    or take what is declared.

    ValueError for an unknown kind, one whose ratio is not known, or sizes that do not fit the
    number of folds.

    >>> protocol_of(10, 90, 10).kind, protocol_of(30, 90, 10).kind, protocol_of(10, 50, 50).kind, protocol_of(10, 70, 30).kind
    ('k-fold', 'repeated', '5x2', 'resampled')
    >>> protocol_of(10).known
    False
    """  # noqa: E501
    if kind is not None:
        one_of(kind, "protocol", PROTOCOLS)
    given = checked_ratio(ratio)
    if known := n_train is not None and n_test is not None:
        found, known_ratio, reason = _recognise(*_sizes(n_folds, n_train, n_test))
    else:
        found, known_ratio = "k-fold", 1 / (n_folds - 1) if n_folds > 1 else None
        reason = (
            f"The sizes of the folds are not recorded: taken as one {n_folds}-fold "
            "cross-validation."
        )
        if (
            kind is None
            and given is not None
            and not np.isclose(given, known_ratio or 0, rtol=0.05)
        ):
            found, known, reason = (
                "resampled",
                True,
                f"Taken as resampled for the ratio that was given, {given:.3g}.",
            )
        if kind in ("repeated", "resampled") and given is None:
            raise ValueError(
                f"`ratio` must be given for {kind} cross-validation of which no sizes are "
                "recorded, got None. It is n_test / n_train: 1/9 for repeated 10-fold "
                "cross-validation."
            )
        known_ratio = 1.0 if kind == "5x2" else known_ratio
    if kind is not None:
        found, known, reason = kind, True, f"Declared as {kind}."
    ratio = None if found == "independent" else known_ratio if given is None else given
    return Protocol(found, n_folds, ratio, known, reason)


def _sizes(
    n_folds: int, n_train: ArrayLike, n_test: ArrayLike
) -> tuple[np.ndarray, np.ndarray, bool]:
    parts = []
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        sizes = np.atleast_1d(np.asarray(value, dtype=float))
        if sizes.size not in (1, n_folds) or not (sizes > 0).all():
            raise ValueError(
                f"`{name}` must hold one positive number, or one for each of the {n_folds} "
                f"folds, got {value!r}."
            )
        parts.append(np.broadcast_to(sizes, n_folds))
    return parts[0], parts[1], np.size(n_train) == np.size(n_test) == n_folds


def _recognise(train: np.ndarray, test: np.ndarray, exact: bool) -> tuple[str, float, str]:
    """Kind, n_test / n_train and the reason; `exact`: the sizes of every fold are known, not only
    rounded ones.
    """
    n_folds, total = len(test), (train + test).mean()
    ratio, covered = float(test.sum() / train.sum()), float(test.sum() / total)
    repeats = round(covered)
    whole = repeats >= 1 and abs(test.sum() - repeats * total) <= (0.5 if exact else 0.5 * n_folds)
    whole &= n_folds % max(repeats, 1) == 0 and np.ptp(train + test) < 1 + (not exact)
    said = f"{n_folds} folds that test {covered:.3g} times as many instances as there are"
    if not whole:
        return "resampled", ratio, f"Recognised as resampled: {said}."
    if repeats == 1:
        return (
            "k-fold",
            ratio,
            f"Recognised as {n_folds}-fold cross-validation: every instance is tested once.",
        )
    if repeats == 5 and n_folds == 10:
        return (
            "5x2",
            ratio,
            "Recognised as five times twofold cross-validation (if ten random halves: declare "
            "'resampled').",
        )
    return (
        "repeated",
        ratio,
        f"Recognised as repeated {n_folds // repeats}-fold cross-validation: {said}.",
    )


def widest(protocols: Sequence[Protocol]) -> Protocol:
    """The protocol that asks for most caution: the one with the largest ratio, repeated before
    single.
    """
    return max(protocols, key=lambda p: (bool(p.naive_refused), p.ratio or 0.0))


def runs_of(runs: pd.DataFrame, dataset: str, methods: Sequence[str]) -> pd.DataFrame:
    """The rows of `Study.runs` of some methods on a dataset, by method; without rows where nothing
    is known.
    """
    if not {"dataset", "method"} <= {*runs.columns}:
        return pd.DataFrame()
    runs = runs[(runs["dataset"] == dataset) & runs["method"].isin(methods)]
    return runs.drop_duplicates("method", keep="last").set_index("method")


def recorded_protocol(
    runs: pd.DataFrame, n_folds: int, kind: str | None = None, ratio: float | None = None
) -> tuple[Protocol, list[str]]:
    """How the folds came about: the most cautious of what the runs say, or what was declared; and
    notes.

    `runs` are as `runs_of` returns them, `kind` and `ratio` as in `protocol_of`. The notes tell
    what is not known, and where methods differ.

    >>> runs = pd.DataFrame({"n_train": [90, 80], "n_test": [10, 20]}, index=["BR", "CC"])
    >>> how, notes = recorded_protocol(runs, 10)
    >>> how.ratio, notes[-1]
    (0.25, 'The methods were trained on parts of different sizes; the widest correction is used (0.25).')
    """  # noqa: E501
    sizes: set[tuple[Any, ...]] = {(None, None)}
    if {"n_train", "n_test"} <= {*runs.columns}:
        known = {
            tuple(_frozen(v) for v in row)
            for row in runs[["n_train", "n_test"]].itertuples(index=False)
        }
        sizes = {pair for pair in known if None not in pair} or sizes
    found = [protocol_of(n_folds, *pair, kind=kind, ratio=ratio) for pair in sizes]
    how = widest(found)
    notes = [] if how.known else [f"{how.reason} Say protocol and ratio if it was another."]
    notes += [how.caution] if how.caution else []
    if len({(p.kind, p.ratio) for p in found}) > 1:
        notes.append(
            "The methods were trained on parts of different sizes; the widest correction is used "
            f"({how.ratio:.3g})."
        )
    return how, notes


def unpaired(
    runs: pd.DataFrame, methods: Sequence[str]
) -> tuple[NDArray[np.bool_] | None, list[str]]:
    """Which pairs of methods have folds that are known to differ, for their split digests do; and
    of how many it is not known.

    `runs` are as `runs_of` returns them; pairs are in the order of
    ``numpy.triu_indices(len(methods), 1)``, None where none differs.

    >>> runs = pd.DataFrame({"split_digest": ["x", "x", "y"]}, index=["BR", "CC", "LP"])
    >>> unpaired(runs, ["BR", "CC", "LP"])[0].tolist()
    [False, True, True]
    """
    recorded = runs["split_digest"].fillna("").to_dict() if "split_digest" in runs else {}
    digests = np.array([recorded.get(name, "") for name in methods], dtype=object)
    first, second = np.triu_indices(len(methods), 1)
    known = digests != ""
    differ = (digests[first] != digests[second]) & known[first] & known[second]
    notes = []
    if unknown := int((~known).sum()):
        notes.append(
            f"How the data were split is unknown for {unknown} of {len(methods)} methods; their "
            "folds are taken as pairs because they have the same numbers."
        )
    return (differ if differ.any() else None), notes


def _frozen(sizes: object) -> object:
    """Sizes as something that can be compared: a number, a tuple, or None for what is missing or
    empty.
    """
    if isinstance(sizes, (list, tuple, np.ndarray)):
        return tuple(sizes) or None
    return None if pd.isna(sizes) else sizes
