"""How aware of the dependence of labels predictions are: summaries of a whole loss profile, for
many profiles at once.

All of them are linear in the means of the order statistics of the errors, or follow from such
(Hüllermeier et al. 2022, sections 4.4 and 5.3); `mlflow_mleval.measures.dependence.Profile` gives
the same for one profile at parameters of one's own.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.measures.dependence import ALPHAS, family_weights, label_count
from mlflow_mleval.validation import one_of

Array = NDArray[np.float64]
#: The summaries of `awareness`, and which way each is better.
SUMMARIES: dict[str, Literal["min", "max"]] = {
    "hamming": "min",
    "subset": "min",
    "area": "min",
    "slope": "min",
    "relative_gain": "max",
}
#: The summaries of the label sets that are measures of the registry, by the name of the measure.
MEASURED = {"binomial_area": "area", "binomial_slope": "slope", "binomial_gain": "relative_gain"}
#: Less room than this between the best and the worst profile is rounding.
_NO_ROOM = 1e-12


def area_weights(family: str, n_labels: int) -> Array:
    """Weights of the mean largest error, the second largest, … in the area under the losses, shape
    (K,).

    The area is that of trapezoids over (k-1)/(K-1), k = 1..K, or over log(alpha) scaled to [0, 1],
    alpha in `ALPHAS`. Binomial: without the K x K weights, for those of the i-th largest error sum
    to (K+1)/(i(i+1)) over k (write 1/C(K,k) as a beta integral and sum under it).
    """
    n_labels = label_count(n_labels)
    if one_of(family, "family", ("binomial", "polynomial")) == "polynomial":
        at = np.log(ALPHAS) / np.log(ALPHAS[-1])
        width = (np.diff(at, prepend=at[0]) + np.diff(at, append=at[-1])) / 2
        return width @ family_weights("polynomial", n_labels)
    if n_labels == 1:
        return np.ones(1)
    place = np.arange(1, n_labels + 1, dtype=float)
    weights = (n_labels + 1) / (place * (place + 1)) - 0.5 / n_labels
    weights[0] -= 0.5
    return weights / (n_labels - 1)


def awareness(
    means: ArrayLike, n_labels: int | None = None, family: str = "binomial"
) -> dict[str, Array]:
    """The ends of loss profiles, their area, slope and relative gain, each of shape (...,).

    Given the means over instances of the largest error, the second largest, and so on, shape (...,
    K); zeros at the end may be left out, then `n_labels` says K. The family is that of area and
    relative_gain.

    >>> a, b = [0.488, 0.104, 0.008], [0.5, 0.5, 0.5]  # the learners A and B of section 4.4
    >>> {name: values.round(3).tolist() for name, values in awareness([a, b]).items()}  # doctest: +NORMALIZE_WHITESPACE
    {'hamming': [0.2, 0.5], 'subset': [0.488, 0.5], 'area': [0.352, 0.5], 'slope': [0.288, 0.0],
     'relative_gain': [0.24, 1.0]}
    """  # noqa: E501
    means = np.asarray(means, dtype=float)
    n_labels = means.shape[-1] if n_labels is None else n_labels
    weights = area_weights(family, n_labels)
    subset = means[..., 0] if means.shape[-1] else np.zeros(means.shape[:-1])
    hamming = np.minimum(means.sum(axis=-1) / n_labels, subset)
    area = np.clip(
        means @ weights[: means.shape[-1]], hamming, subset
    )  # it lies between the ends, whatever rounding says
    # With as many wrong labels in every instance the i-th largest error is 1 for all, then for a
    # share, then for none.
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


def hard_measures(means: ArrayLike, n_labels: int | None = None) -> dict[str, Array]:
    """The measures of the registry that follow from the wrong labels of label sets alone; arguments
    as of `awareness`.
    """
    found = awareness(means, n_labels)
    ends = {"hamming_loss": found["hamming"], "subset_accuracy": 1 - found["subset"]}
    return ends | {measure: found[name] for measure, name in MEASURED.items()}


def binomial_measures(means: ArrayLike, kind: Literal["soft", "hard"]) -> dict[str, float]:
    """The summaries of the binomial profile that an evaluation reports, by the names of the
    registry.

    The errors are those of scores ("soft") or of predicted label sets ("hard"), whose ends are
    measures anyway.
    """
    found = {name: float(value) for name, value in awareness(means).items()}
    if kind == "hard":
        return {measure: found[name] for measure, name in MEASURED.items()}
    ends = {"soft_hamming_loss": found["hamming"], "soft_subset_loss": found["subset"]}
    return {**ends, "soft_binomial_area": found["area"], "soft_binomial_slope": found["slope"]}
