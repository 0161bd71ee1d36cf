"""OWA, binomial and polynomial losses and their profiles (Hüllermeier et al. 2022, eq. 16). All are
linear in the order statistics of the errors, so one sort gives the loss for every parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mlflow_mleval.measures.inputs import (
    blocks,
    error_blocks,
    row_sizes,
    rows_of,
    slices,
    truth_and_scores,
)
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Ints,
    binary_matrix,
    matrix_shape,
    one_of,
    same_shape,
)

#: What the parameter of each family is called.
PARAMETERS = {"binomial": "k", "polynomial": "alpha"}
FAMILIES = tuple(PARAMETERS)

#: Default exponents of the polynomial profile: the loss moves by a few per cent between them.
ALPHAS: Array = np.geomspace(1, 1000, 31)
ALPHAS.flags.writeable = False

_MOST_WEIGHTS = 1 << 19  # made at a time: K x K of them would be too many for ten thousand labels


# ---- weights -------------------------------------------------------------------------------------


def family_weights(
    family: str, n_labels: int, parameters: ArrayLike | None = None, n_largest: int | None = None
) -> Array:
    """OWA weights (P, K) of a family, that of the largest error first (eq. 17 and 18), or of the
    `n_largest` errors only."""
    at = _parameters(family, n_labels, parameters)[:, None]
    n_largest = n_labels if n_largest is None else n_largest
    if family == "binomial":
        # products of ratios of neighbouring weights: relative error 5e-15 at K=1000, no overflow
        left = np.arange(n_labels - 1, n_labels - n_largest, -1, dtype=float)
        return np.cumprod(np.hstack([at / n_labels, np.maximum(left - at + 1, 0) / left]), axis=1)
    right = np.arange(n_labels, n_labels - n_largest, -1)
    # Near 1 the logarithm of right/K loses digits that the exponent would magnify; near 0 that of 1
    # - (i-1)/K does.
    log_share = np.where(
        2 * right > n_labels, np.log1p((right - n_labels) / n_labels), np.log(right / n_labels)
    )
    with np.errstate(divide="ignore"):
        log_step = np.log1p(-1 / right)  # log((right-1)/right), -inf for the last
    return np.exp(at * log_share) * -np.expm1(at * log_step)


def label_count(n_labels: int) -> int:
    """The number of labels, if it is one; else a ValueError."""
    if isinstance(n_labels, bool) or int(n_labels) != n_labels or n_labels < 1:
        raise ValueError(f"`n_labels` must be a positive integer, got {n_labels!r}.")
    return int(n_labels)


def owa_weights(family: str, n_labels: int, parameter: float) -> Array:
    """The weights of one loss of a family, shape (K,)."""
    if np.ndim(parameter):
        raise ValueError(f"`{PARAMETERS[family]}` must be one number, got {parameter!r}.")
    return family_weights(family, n_labels, parameter)[0]


def _parameters(family: str, n_labels: int, parameters: ArrayLike | None) -> AnyArray:
    """The checked parameters of a family, or its default ones."""
    n_labels = label_count(n_labels)
    if one_of(family, "family", FAMILIES) == "binomial":
        usual = np.arange(1, n_labels + 1)
        values = usual if parameters is None else np.asarray(parameters, dtype=float)
        good = (values >= 1) & (values <= n_labels) & (values == np.floor(values))
        want = f"an integer in 1..{n_labels}, the number of labels"
    else:
        values = ALPHAS if parameters is None else np.asarray(parameters, dtype=float)
        good = (values >= 1) & np.isfinite(values)
        want = "a finite number of at least 1"
    name = PARAMETERS[family]
    if values.ndim > 1 or not values.size:
        want = "a number or a sequence of them"
        raise ValueError(f"`{name}` must be {want}, got shape {values.shape}.")
    if not good.all():
        bad = some((f"{v:g}" for v in values[~good]), 3)
        raise ValueError(f"`{name}` must be {want}, got {bad}.")
    return np.atleast_1d(values).astype(np.int64 if family == "binomial" else np.float64)


def rising_parameters(family: str, n_labels: int, parameters: ArrayLike | None) -> AnyArray:
    """The checked parameters of a profile, which must rise, or the default ones of the family."""
    checked = _parameters(family, n_labels, parameters)
    if np.any(np.diff(checked) <= 0):
        raise ValueError(f"`parameters` must increase, got {checked[:8].tolist()}. Sort them.")
    return checked


def positions(family: str, n_labels: int, parameters: AnyArray) -> Array:
    """Place of each parameter between Hamming (0) and subset 0/1 (1)."""
    if family == "binomial":
        return (parameters - 1) / max(n_labels - 1, 1)
    return np.log(parameters) / max(np.log(parameters[-1]), np.finfo(float).tiny)


# ---- what a profile is made of -------------------------------------------------------------------


def order_statistic_sums(y_true: Any, y_score: Any) -> Array:
    """Sums over instances of the largest error, the second largest, …, shape (K,)."""
    y_true, y_score = truth_and_scores(y_true, y_score)
    n_labels = y_true.shape[1]
    if sparse.issparse(y_true) and sparse.issparse(y_score):
        errors = abs(y_score.astype(float) - y_true.astype(float))
        rows = rows_of(errors)
        order = np.lexsort((-errors.data, rows))
        place = np.arange(errors.nnz) - errors.indptr[rows]
        return np.bincount(place, errors.data[order], n_labels).astype(float, copy=False)
    sums = np.zeros(n_labels)
    for _, _, errors in error_blocks(y_true, y_score):
        errors.sort(axis=1)
        sums += errors.sum(axis=0)
    return sums[::-1].copy()


def error_histogram(y_true: Any, y_pred: Any) -> Ints:
    """Number of instances with 0, 1, …, K wrong labels, of two label matrices."""
    y_true = binary_matrix(y_true, "y_true")
    y_pred = binary_matrix(y_pred, "y_pred")
    same_shape(y_pred, "y_pred", y_true)
    n_rows, n_labels = y_true.shape
    if sparse.issparse(y_true) and sparse.issparse(y_pred):
        counts = row_sizes((y_true != y_pred).tocsr())
    else:
        counts = np.empty(n_rows, dtype=np.int64)
        for rows, truth, pred in blocks(y_true, y_pred):
            counts[rows] = np.count_nonzero(truth != pred, axis=1)
    return np.bincount(counts, minlength=n_labels + 1)


# ---- profiles ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Profile:
    """The loss of one method over a family of losses that ask for more and more labels to be right
    together.

    The family starts at the Hamming loss and ends at the subset 0/1 loss. The profile of a method
    whose errors fall together is flat, that of a method that spreads them over the instances is
    steep: it is less aware of the dependence of labels, however good it is at either end
    (Hüllermeier et al. 2022, sections 4.4 and 5.3).

    Attributes
    ----------
    family : {"binomial", "polynomial"}
    kind : {"soft", "hard"}
        Of scores, or of predicted label sets.
    parameters : array, shape (P,)
        k or alpha, increasing.
    losses : array, shape (P,)
        Mean loss over instances for each parameter, in [0, 1], non-decreasing; 0 is best.
    n_labels : int
        K.
    hamming, subset : float
        The two ends, exact whatever the parameters: the mean error, and the mean over instances of
        the largest error (for hard predictions the Hamming loss and the subset 0/1 loss). 0 is
        best.

    >>> a, b = profile_from_histogram([64, 48, 12, 1]), profile_from_histogram([1, 0, 0, 1])
    >>> a.losses.round(3), b.losses
    (array([0.2  , 0.36 , 0.488]), array([0.5, 0.5, 0.5]))
    >>> round(a.area, 3), round(a.slope, 3)
    (0.352, 0.288)
    >>> b.area, b.slope
    (0.5, 0.0)
    """

    family: Literal["binomial", "polynomial"]
    kind: Literal["soft", "hard"]
    parameters: AnyArray
    losses: Array
    n_labels: int
    hamming: float
    subset: float

    @property
    def positions(self) -> Array:
        """Place of each parameter between Hamming (0) and subset 0/1 (1), shape (P,).

        (k-1)/(K-1) for the binomial family; for the polynomial one log(alpha) over the logarithm of
        the largest alpha.
        """
        return positions(self.family, self.n_labels, self.parameters)

    @property
    def area(self) -> float:
        """Area under the losses over `positions` (trapezoids), divided by the width, in [hamming,
        subset]; 0 is best.

        The mean loss over the degrees of dependence: it grows with the level and with the slope.
        """
        if len(self.losses) == 1:
            return float(self.losses[0])
        at = self.positions
        area = np.sum((self.losses[1:] + self.losses[:-1]) * np.diff(at)) / (2 * (at[-1] - at[0]))
        return float(np.clip(area, self.hamming, self.subset))

    @property
    def slope(self) -> float:
        """Mean slope of the profile from Hamming (0) to subset 0/1 (1): ``subset - hamming``, in
        [0, 1].

        0 is flat: the errors fall together, the method is most aware of dependence. A method that
        is always wrong is flat too, so the slope says nothing without the level.
        """
        return self.subset - self.hamming


def loss_profile(
    y_true: Any, predicted: Any, family: str = "binomial", parameters: ArrayLike | None = None
) -> Profile:
    """The profile of scores, or of predicted label sets.

    Parameters
    ----------
    y_true : array or scipy.sparse matrix of 0 and 1, shape (N, K)
    predicted : array or scipy.sparse matrix, shape (N, K)
        Floats are scores in [0, 1]: their errors are sorted once. Booleans and integers 0 and 1 are
        label sets: their wrong labels are counted, which is several times faster.
    family : {"binomial", "polynomial"}
    parameters : array, shape (P,), optional
        Increasing; by default k = 1..K, or `ALPHAS`.

    Raises
    ------
    ValueError, TypeError
        As `owa_loss`; an unknown family, parameters out of range or order.

    >>> loss_profile([[0, 1, 1], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]]).losses.round(4)
    array([0.1667, 0.3333, 0.5   ])
    >>> loss_profile([[0, 1, 1], [0, 0, 1]], [[0.25, 1.0, 0.5], [0.5, 0.0, 0.25]], "polynomial", [1, 2]).losses.round(4)
    array([0.3333, 0.4722])
    """  # noqa: E501
    predicted = matrix_shape(predicted, "predicted")
    if predicted.dtype.kind in "bui":
        return profile_from_histogram(error_histogram(y_true, predicted), family, parameters)
    means = order_statistic_sums(y_true, predicted) / predicted.shape[0]
    return profile_from_means(means, family, parameters)


def profile_from_means(
    means: ArrayLike, family: str = "binomial", parameters: ArrayLike | None = None
) -> Profile:
    """The profile of scores, from the mean of each order statistic of the errors."""
    means = np.asarray(means, dtype=float)
    falls = means.ndim == 1 and np.all(np.diff(means, prepend=1, append=0) <= 1e-9)
    if not falls or not len(means):
        raise ValueError(
            "`means` must be a non-increasing sequence in [0, 1], the mean of the largest error "
            "first: the sums of `order_statistic_sums` by the number of instances."
        )
    return _profile(means, family, parameters, "soft")


def profile_from_histogram(
    histogram: ArrayLike, family: str = "binomial", parameters: ArrayLike | None = None
) -> Profile:
    """The profile of hard predictions, from the number of instances with 0, 1, …, K wrong labels:
    one with j loses the j largest weights (the paper's sum has its index reversed)."""
    histogram = np.asarray(histogram)
    fits = histogram.ndim == 1 and len(histogram) >= 2 and (histogram >= 0).all()
    if not fits or not histogram.any():
        want = "numbers of instances with 0, 1, …, K wrong labels, none negative and not all 0"
        raise ValueError(f"`histogram` must hold {want}, as of `error_histogram`.")
    # the i-th largest error is 1 where at least i labels are wrong
    at_least = np.cumsum(histogram[::-1])[::-1]
    return _profile(at_least[1:] / at_least[0], family, parameters, "hard")


def _profile(means: Array, family: Any, parameters: ArrayLike | None, kind: Any) -> Profile:
    n_labels = len(means)
    parameters = rising_parameters(family, n_labels, parameters)
    n_largest = max(1, int(np.count_nonzero(means)))  # few of many labels are wrong, as a rule
    parts = slices(len(parameters), max(1, _MOST_WEIGHTS // n_largest))
    weights = (family_weights(family, n_labels, parameters[part], n_largest) for part in parts)
    losses = np.concatenate([own @ means[:n_largest] for own in weights])
    # The exact profile is non-decreasing and ends at the largest error, whatever rounding says.
    losses = np.minimum(np.maximum.accumulate(losses), means[0])
    subset = float(means[0])
    hamming = min(float(means.mean()), subset)
    return Profile(family, kind, parameters, losses, n_labels, hamming, subset)


# ---- losses --------------------------------------------------------------------------------------


def owa_loss(y_true: Any, y_score: Any, weights: ArrayLike, *, per_instance: bool = False) -> Any:
    """Weighted sum of the errors of an instance by rank, mean over instances; 0 is best, 1 worst.

    The loss of Hüllermeier et al. 2022, eq. 16: sum of w_i e_(i), where e_(1) is the LARGEST of the
    errors abs(y_score - y_true). Weights (1/K, …, 1/K) give the Hamming loss, (1, 0, …, 0) the
    subset 0/1 loss. Weights that increase are allowed: they forgive large errors.

    Parameters
    ----------
    y_true : array or scipy.sparse matrix of 0 and 1, shape (N, K)
    y_score : array or scipy.sparse matrix in [0, 1], shape (N, K)
        Scores or hard predictions.
    weights : array, shape (K,)
        Not negative, of sum 1, that of the largest error first.
    per_instance : bool
        Return the loss of every instance in place of their mean.

    Returns
    -------
    float, or array of shape (N,)

    Raises
    ------
    ValueError, TypeError
        Shapes differ, a truth other than 0 or 1, a score that is NaN or outside [0, 1], weights as
        above.

    >>> float(owa_loss([[0, 1, 1]], [[0.25, 1.0, 0.5]], [0.5, 0.25, 0.25]))
    0.3125
    """
    y_true, y_score = truth_and_scores(y_true, y_score)
    n_labels = y_true.shape[1]
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (n_labels,):
        raise ValueError(f"`weights` must be one per label, {n_labels}, got {weights.shape}.")
    if not np.all(weights >= 0):
        raise ValueError(f"`weights` must not be negative, got {weights.min()}.")
    if abs(weights.sum() - 1) > 1e-9:
        raise ValueError(f"`weights` must sum to 1, got {weights.sum()}. Divide them by their sum.")
    return _owa(y_true, y_score, weights, per_instance)


def binomial_loss(y_true: Any, y_score: Any, k: int, *, per_instance: bool = False) -> Any:
    """Mean over all sets of k labels of the largest error in the set, mean over instances; 0 is
    best, 1 worst.

    Hard predictions: the share of the sets of k labels that are not predicted exactly. k=1 is the
    Hamming loss, k=K the subset 0/1 loss (Hüllermeier et al. 2022, eq. 18).

    Parameters
    ----------
    y_true, y_score, per_instance
        As for `owa_loss`, which says what is returned and raised.
    k : int
        In 1..K.

    >>> float(binomial_loss([[0, 1, 1]], [[0.25, 1.0, 0.5]], 3))
    0.5
    >>> binomial_loss([[0, 1, 1], [1, 0, 0]], [[0, 1, 0], [1, 0, 0]], 2, per_instance=True).round(4)
    array([0.6667, 0.    ])
    """
    y_true, y_score = truth_and_scores(y_true, y_score)
    return _owa(y_true, y_score, owa_weights("binomial", y_true.shape[1], k), per_instance)


def polynomial_loss(y_true: Any, y_score: Any, alpha: float, *, per_instance: bool = False) -> Any:
    """OWA loss of the counting measure (share of labels)^alpha, mean over instances; 0 is best, 1
    worst.

    Hard predictions: 1 - (share of right labels)^alpha. alpha=1 is the Hamming loss; it nears the
    subset 0/1 loss as alpha grows (Hüllermeier et al. 2022, eq. 17).

    Parameters
    ----------
    y_true, y_score, per_instance
        As for `owa_loss`, which says what is returned and raised.
    alpha : float
        At least 1.

    >>> float(polynomial_loss([[0, 1]], [[0, 0]], 2))
    0.75
    """
    y_true, y_score = truth_and_scores(y_true, y_score)
    return _owa(y_true, y_score, owa_weights("polynomial", y_true.shape[1], alpha), per_instance)


def _owa(y_true: Any, y_score: Any, weights: Array, per_instance: bool) -> Any:
    if not per_instance:
        return float(order_statistic_sums(y_true, y_score) @ weights / y_true.shape[0])
    losses = np.empty(y_true.shape[0])
    for rows, _, errors in error_blocks(y_true, y_score):
        errors.sort(axis=1)
        losses[rows] = errors @ weights[::-1]
    return losses


# ---- summaries of many profiles at once ----------------------------------------------------------
# All are linear in the means of the order statistics of the errors, or follow from such.

#: The summaries of the label sets that are measures of the registry, by the name of the measure.
MEASURED = {"binomial_area": "area", "binomial_slope": "slope", "binomial_gain": "relative_gain"}
#: Less room than this between the best and the worst profile is rounding.
_NO_ROOM = 1e-12


def awareness(
    means: ArrayLike, n_labels: int | None = None, family: str = "binomial"
) -> dict[str, Array]:
    """The ends of loss profiles, their area, slope and relative gain, each of shape (...,), from
    means (..., K) of the largest error, the second, …; zeros at the end may be left out."""
    means = np.asarray(means, dtype=float)
    n_labels = label_count(means.shape[-1] if n_labels is None else n_labels)
    # weights of the mean largest error, the second largest, … in the area under the losses
    if one_of(family, "family", FAMILIES) == "polynomial":
        at = np.log(ALPHAS) / np.log(ALPHAS[-1])
        width = (np.diff(at, prepend=at[0]) + np.diff(at, append=at[-1])) / 2
        weights = width @ family_weights("polynomial", n_labels)
    else:
        place = np.arange(1, n_labels + 1, dtype=float)
        weights = (n_labels + 1) / (place * (place + 1)) - 0.5 / n_labels
        weights[0] -= 0.5
        weights = weights / (n_labels - 1) if n_labels > 1 else np.ones(1)
    subset = means[..., 0] if means.shape[-1] else np.zeros(means.shape[:-1])
    hamming = np.minimum(means.sum(axis=-1) / n_labels, subset)
    # it lies between the ends, whatever rounding says
    area = np.clip(means @ weights[: means.shape[-1]], hamming, subset)
    # With equally many wrong labels the i-th largest error is 1 for all, a share, then none.
    wrong = hamming * n_labels
    whole = np.minimum(wrong.astype(np.int64), n_labels - 1)
    below = np.concatenate([[0.0], np.cumsum(weights)])
    room = below[whole] + (wrong - whole) * weights[whole] - hamming
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(room > _NO_ROOM, np.clip(1 - (area - hamming) / room, 0, 1), np.nan)
    return {
        "hamming": hamming,
        "subset": subset,
        "area": area,
        "slope": subset - hamming,
        "relative_gain": gain,
    }


def hard_measures(means: ArrayLike) -> dict[str, Array]:
    """The measures that follow from the wrong labels alone; `means` as of `awareness`."""
    summary = awareness(means)
    ends = {"hamming_loss": summary["hamming"], "subset_accuracy": 1 - summary["subset"]}
    return ends | {measure: summary[name] for measure, name in MEASURED.items()}
