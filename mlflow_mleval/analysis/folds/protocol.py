"""How the folds of a run came about, and what that means for a test over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.folds.covariance import checked_ratio
from mlflow_mleval.validation import one_of

PROTOCOLS = ("k-fold", "repeated", "resampled", "5x2", "independent")
#: More folds than this, and it may well be repeated cross-validation.
MANY_FOLDS = 10


@dataclass(frozen=True)
class Protocol:
    """How R folds came about.

    Attributes
    ----------
    kind : {"k-fold", "repeated", "resampled", "5x2", "independent"}
        One cross-validation; several with new splits; random splits (or training sets of other sizes); five times twofold;
        or training sets without anything in common.
    n_folds : int
    ratio : float or None
        n_test / n_train of a fold, which corrects the tests; None for independent folds.
    known : bool
        False where it was assumed, for nothing was recorded.
    reason : str
        What it was recognised by, in a sentence.
    """

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
            f"{self.kind} cross-validation tests the same instances again: the uncorrected test finds differences where there "
            "are none in most cases, and is not made"
        )

    @property
    def caution(self) -> str:
        """How far even the corrected tests err in simulations, and what helps; empty where they do not."""
        if self.kind in ("k-fold", "independent"):
            return ""
        if self.kind == "5x2":
            return (
                "The F test takes the five repetitions for independent, though they test the same instances: at α = .05 it told "
                "equal learners apart in up to 11% of simulations (4% with two measures together)."
            )
        return (
            "The folds test the same instances again, and the correction leaves little room for luck with them: at α = .05 it "
            "told equal learners apart in about 10% of simulations with nearest neighbours; with twice n_test / n_train as the "
            "ratio, in less than 5%."
        )


def protocol_of(
    n_folds: int, n_train: ArrayLike | None = None, n_test: ArrayLike | None = None, *, kind: str | None = None,
    ratio: float | None = None,
) -> Protocol:
    """Recognise how folds came about from the sizes of their parts, or take what is declared.

    Parameters
    ----------
    n_folds : int
    n_train, n_test : int or sequence of int, optional
        Instances of each fold, or of all alike.
    kind : str, optional
        Declares it.
    ratio : float, optional
        Declares n_test / n_train.

    Raises
    ------
    ValueError
        An unknown kind; a kind whose ratio is not known; or sizes that do not fit the number of folds.

    Examples
    --------
    >>> protocol_of(10, 90, 10).kind, protocol_of(30, 90, 10).kind, protocol_of(10, 50, 50).kind, protocol_of(10, 70, 30).kind
    ('k-fold', 'repeated', '5x2', 'resampled')
    >>> protocol_of(10).known
    False
    """
    if kind is not None:
        one_of(kind, "protocol", PROTOCOLS)
    given = checked_ratio(ratio)
    sizes = None if n_train is None or n_test is None else _sizes(n_folds, n_train, n_test)
    if sizes is not None:
        found, known_ratio, reason = _recognise(*sizes)
        known = True
    else:
        found, known_ratio, known = "k-fold", 1 / (n_folds - 1) if n_folds > 1 else None, False
        reason = f"The sizes of the folds are not recorded: taken as one {n_folds}-fold cross-validation."
    if given is not None and kind is None and sizes is None and not np.isclose(given, known_ratio or 0, rtol=0.05):
        found, known, reason = "resampled", True, f"Taken as resampled for the ratio that was given, {given:.3g}."
    if kind is not None:
        if given is None and sizes is None and kind in ("repeated", "resampled"):
            raise ValueError(
                f"`ratio` must be given for {kind} cross-validation of which no sizes are recorded, got None. It is "
                "n_test / n_train: 1/9 for repeated 10-fold cross-validation."
            )
        found, known, reason = kind, True, f"Declared as {kind}."
        if sizes is None:
            known_ratio = {"5x2": 1.0, "independent": None}.get(kind, known_ratio)
    if found == "independent":
        return Protocol(found, n_folds, None, known, reason)
    return Protocol(found, n_folds, known_ratio if given is None else given, known, reason)


def _sizes(n_folds: int, n_train: ArrayLike, n_test: ArrayLike) -> tuple[np.ndarray, np.ndarray, bool]:
    parts = []
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        sizes = np.atleast_1d(np.asarray(value, dtype=float))
        if sizes.size not in (1, n_folds) or not (sizes > 0).all():
            raise ValueError(f"`{name}` must hold one positive number, or one for each of the {n_folds} folds, got {value!r}.")
        parts.append(np.broadcast_to(sizes, n_folds))
    return parts[0], parts[1], np.size(n_train) == np.size(n_test) == n_folds


def _recognise(train: np.ndarray, test: np.ndarray, exact: bool) -> tuple[str, float, str]:
    """Kind, n_test / n_train and the reason; `exact`: the sizes of every fold are known, not only rounded ones."""
    n_folds, total = len(test), (train + test).mean()
    ratio, covered = float(test.sum() / train.sum()), float(test.sum() / total)
    repeats = round(covered)
    whole = repeats >= 1 and abs(test.sum() - repeats * total) <= (0.5 if exact else 0.5 * n_folds)
    whole &= n_folds % max(repeats, 1) == 0 and np.ptp(train + test) < 1 + (not exact)
    said = f"{n_folds} folds that test {covered:.3g} times as many instances as there are"
    if not whole:
        return "resampled", ratio, f"Recognised as resampled: {said}."
    if repeats == 1:
        return "k-fold", ratio, f"Recognised as {n_folds}-fold cross-validation: every instance is tested once."
    if repeats == 5 and n_folds == 10:
        return "5x2", ratio, "Recognised as five times twofold cross-validation (if ten random halves: declare 'resampled')."
    return "repeated", ratio, f"Recognised as repeated {n_folds // repeats}-fold cross-validation: {said}."


def widest(protocols: Sequence[Protocol]) -> Protocol:
    """The protocol that asks for most caution: the one with the largest ratio, repeated before single."""
    return max(protocols, key=lambda p: (bool(p.naive_refused), p.ratio or 0.0))
