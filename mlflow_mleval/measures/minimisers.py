"""Predictions that minimise an expected loss: Bayes-optimal label sets, and the nearest-neighbour
minimiser.

Losses of label sets that depend only on the number of wrong labels are minimised by enumeration of
what can matter: labels on which all sets of a distribution agree are fixed (the consensus rule of
Hüllermeier et al. 2022, section 6), and labels that agree or disagree with each other in every set
are exchangeable, so only how many of them are flipped is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from mlflow_mleval.measures.capacities import MOST_TABULATED, Capacity
from mlflow_mleval.measures.dependence import FAMILIES, family_weights, owa_weights
from mlflow_mleval.measures.flat import dense
from mlflow_mleval.validation import Array, Bools, Ints, binary_matrix, one_of

MAX_CANDIDATES = 2**18
# expected losses that differ by less are taken for equal: they may differ by rounding alone
_TIE = 1e-13
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Optimum:
    """A label set (0 and 1, shape (K,)) of least expected loss, and that loss in [0, 1]; 0 is
    best.
    """

    label_set: Ints
    expected_loss: float


def bayes_optimal(
    label_sets: Any,
    probabilities: ArrayLike,
    loss: str | Capacity = "binomial",
    parameter: float | None = None,
    *,
    max_candidates: int = MAX_CANDIDATES,
) -> Optimum:
    """The label set of least expected loss under a distribution over label sets, by enumeration.

    Of several such sets it is the first in lexicographic order (the one that has 0 where they first
    differ).

    Parameters
    ----------
    label_sets : array or scipy.sparse matrix of 0 and 1, shape (M, K)
        Those of positive probability; one that is given twice has the sum of its probabilities.
    probabilities : array, shape (M,)
        Of sum 1.
    loss : {"binomial", "polynomial"} or Capacity
        A `Capacity` takes at most 16 labels; it may depend on the relevant labels.
    parameter : float
        k or alpha of the family; not with a capacity.
    max_candidates : int
        Most label sets to compare, see `NearestNeighbourMinimiser`.

    Raises
    ------
    ValueError, TypeError
        Label sets other than 0 and 1, probabilities as above, an unknown loss, a parameter out of
        range, too many label sets to try.

    Notes
    -----
    Hüllermeier et al. 2022, section 4.4: the optimum for the Hamming loss is the marginal mode, for
    the subset 0/1 loss the joint mode; between them it may be neither.

    >>> sets, p = [[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]], [4 / 16, 3 / 16, 3 / 16, 3 / 16, 3 / 16]
    >>> bayes_optimal(sets, p, "binomial", 1).label_set, bayes_optimal(sets, p, "binomial", 3).label_set
    (array([1, 1, 1]), array([0, 0, 0]))
    """  # noqa: E501
    label_sets = dense(binary_matrix(label_sets, "label_sets"))
    n_sets, n_labels = label_sets.shape
    probabilities = np.asarray(probabilities, dtype=float)
    if probabilities.shape != (n_sets,):
        raise ValueError(
            f"`probabilities` must be one per label set, shape ({n_sets},), got shape "
            f"{probabilities.shape}."
        )
    if not (np.all(probabilities >= 0) and abs(probabilities.sum() - 1) <= 1e-9):
        raise ValueError(
            "`probabilities` must not be negative and sum to 1, got a smallest of "
            f"{probabilities.min()} and a sum of {probabilities.sum()}. Divide them by their "
            "sum."
        )
    if not isinstance(loss, Capacity):
        if parameter is None:
            raise ValueError(f"`parameter` must be k or alpha of the {loss} loss, got None.")
        weights = owa_weights(one_of(loss, "loss", FAMILIES), n_labels, parameter)
        found, expected = _minimise(
            label_sets,
            probabilities,
            _losses_by_errors(weights[None]),
            max_candidates,
        )
        return Optimum(found[0], float(expected[0]))
    if parameter is not None:
        raise ValueError(f"`parameter` must be left out with a capacity, got {parameter!r}.")
    if loss.n_labels != n_labels or n_labels > MOST_TABULATED:
        raise ValueError(
            f"`loss` must be a capacity of {n_labels} labels, the columns of `label_sets`, and "
            f"of at most {MOST_TABULATED}, got one of {loss.n_labels}."
        )
    candidates = (np.arange(1 << n_labels)[:, None] >> np.arange(n_labels)[::-1] & 1).astype(bool)
    expected = np.zeros(len(candidates))
    for truth, probability in zip(label_sets, probabilities, strict=True):
        expected += probability * loss.losses(
            (candidates != truth).astype(float), np.broadcast_to(truth, candidates.shape)
        )
    best = np.argmax(expected <= expected.min() + _TIE)
    return Optimum(candidates[best].astype(np.int64), float(expected[best]))


class NearestNeighbourMinimiser(ClassifierMixin, BaseEstimator):
    """Predict the label set of least mean loss against the label sets of the nearest neighbours.

    Equation 19 of Hüllermeier et al. 2022: neighbours by L1 distance, exact minimisation over all
    label sets. The parameter sets how much the loss that is minimised asks for labels to be right
    together, from the Hamming loss (each label by majority) to the subset 0/1 loss (the most
    frequent label set).

    Parameters
    ----------
    n_neighbors : int
        Neighbours whose label sets are taken. Features count as they are: scale them before.
    loss : {"binomial", "polynomial"}
    parameter : float
        k in 1..K, or alpha of at least 1.
    max_candidates : int
        Most label sets to compare for one instance. The consensus rule and exchangeable labels
        leave the product of (g + 1) over the groups of g exchangeable labels, at most 2**K and
        usually far fewer.

    Attributes
    ----------
    n_labels_ : int
        K.
    classes_ : array, shape (K,)
        Numbers of the labels.

    Notes
    -----
    Ties, common for the subset 0/1 loss where no label set occurs twice, go to the first label set
    in lexicographic order (the one that has 0 where they first differ), so predictions depend on
    the order of labels.

    >>> X, Y = [[0.0], [1.0], [2.0], [3.0]], [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> minimiser = NearestNeighbourMinimiser(n_neighbors=3, parameter=1).fit(X, Y)
    >>> minimiser.predict([[2.0]])
    array([[1, 1, 1]])
    >>> minimiser.predict_all([[2.0]], [1, 2, 3])[:, 0]
    array([[1, 1, 1],
           [0, 1, 1],
           [0, 1, 1]])
    """

    def __init__(
        self,
        n_neighbors: int = 9,
        *,
        loss: str = "binomial",
        parameter: float = 1,
        max_candidates: int = MAX_CANDIDATES,
    ):
        self.n_neighbors = n_neighbors
        self.loss = loss
        self.parameter = parameter
        self.max_candidates = max_candidates

    def fit(self, X: Any, y: Any) -> NearestNeighbourMinimiser:
        """Keep the instances, shape (N, F), and their label sets, an array or scipy.sparse matrix
        of 0 and 1, shape (N, K).

        A ValueError is raised for other labels, fewer instances than neighbours, an unknown loss or
        a parameter out of range.
        """
        X, y = validate_data(self, X, y, multi_output=True)
        if (kind := type_of_target(y, input_name="y", raise_unknown=True)) not in (
            "binary",
            "multilabel-indicator",
        ):
            raise ValueError(
                f"`y` must be a matrix of 0 and 1, got a {kind} target. Only binary "
                "classification is supported. For classes, pass one column a class."
            )
        y = binary_matrix(y.reshape(len(y), -1) if isinstance(y, np.ndarray) else y, "y")
        if self.n_neighbors != int(self.n_neighbors) or not 1 <= self.n_neighbors <= X.shape[0]:
            raise ValueError(
                "`n_neighbors` must be an integer from 1 to the number of instances, n_samples = "
                f"{X.shape[0]}, got {self.n_neighbors!r}."
            )
        self.label_sets_ = dense(y)
        self.n_labels_ = y.shape[1]
        self.classes_ = np.arange(self.n_labels_)
        owa_weights(
            one_of(self.loss, "loss", FAMILIES), self.n_labels_, self.parameter
        )  # refuses bad ones now, not later
        self.neighbours_ = NearestNeighbors(n_neighbors=self.n_neighbors, metric="manhattan").fit(X)
        return self

    def predict(self, X: Any) -> Ints:
        """Label sets of least mean loss, shape (N, K).

        A ValueError is raised where the neighbours of an instance leave more than
        ``max_candidates`` label sets to compare.
        """
        return self.predict_all(X, [self.parameter])[0]

    def predict_all(self, X: Any, parameters: ArrayLike) -> Ints:
        """Predictions for several values of k or alpha, shape (P, N, K), for little more than the
        cost of one; see `predict`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        losses = _losses_by_errors(family_weights(self.loss, self.n_labels_, parameters))
        weights = np.full(self.n_neighbors, 1 / self.n_neighbors)
        predicted = np.empty((losses.shape[1], X.shape[0], self.n_labels_), dtype=np.int64)
        for i, neighbours in enumerate(self.neighbours_.kneighbors(X, return_distance=False)):
            predicted[:, i], _ = _minimise(
                self.label_sets_[neighbours],
                weights,
                losses,
                self.max_candidates,
            )
        return predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags


def _losses_by_errors(weights: Array) -> Array:
    """Loss of a label set with 0, 1, …, K wrong labels, shape (K + 1, P), from OWA weights of shape
    (P, K).
    """
    return np.vstack([np.zeros(len(weights)), np.cumsum(weights, axis=1).T])


def _minimise(
    label_sets: Bools,
    weights: Array,
    losses: Array,
    max_candidates: int,
) -> tuple[Ints, Array]:
    """Label sets of least expected loss, shape (P, K), and these losses, shape (P,).

    Candidates are described by their differences from the first label set. Where two labels differ
    from it in the same label sets, flipping the one or the other is the same, so a candidate is how
    many labels of each such group it flips.
    """
    n_labels = label_sets.shape[1]
    first = label_sets[0]
    differs = label_sets != first
    groups: dict[bytes, list[int]] = {}
    for label, pattern in enumerate(np.packbits(differs, axis=0).T):
        if pattern.any():  # else all agree: consensus
            groups.setdefault(pattern.tobytes(), []).append(label)
    if not groups:
        return np.tile(first.astype(np.int64), (losses.shape[1], 1)), losses[0]
    sizes = np.array([len(group) for group in groups.values()], dtype=np.int64)
    n_candidates = prod(size + 1 for size in sizes.tolist())
    if n_candidates > max_candidates:
        raise ValueError(
            f"`max_candidates` must be at least the {n_candidates} label sets that "
            f"{len(label_sets)} label sets leave open on {sizes.sum()} labels, got "
            f"{max_candidates}. Raise it, or take fewer."
        )
    flips = np.indices(tuple(sizes + 1)).reshape(len(sizes), -1).T.astype(np.float32)
    pattern = np.array([differs[:, group[0]] for group in groups.values()], dtype=np.float32)
    # A group of g labels, t of them flipped, has t wrong labels in the sets like the first, g - t
    # in the others.
    n_errors = int(sizes.sum()) + 1
    expected = np.empty((n_candidates, losses.shape[1]))
    step = max(1, _BLOCK // max(len(label_sets), n_errors))
    for start in range(0, n_candidates, step):
        wrong = (flips[start : start + step] @ (1 - 2 * pattern) + sizes @ pattern).astype(np.int64)
        cells = wrong + n_errors * np.arange(len(wrong))[:, None]
        shares = np.bincount(
            cells.ravel(), np.broadcast_to(weights, wrong.shape).ravel(), len(wrong) * n_errors
        )
        expected[start : start + step] = shares.reshape(-1, n_errors) @ losses[:n_errors]
    least = expected.min(axis=0)

    # Which labels of a group are flipped is free: those that are 1 in the first set from the front,
    # then the others from the back, gives the first label set in lexicographic order.
    group_of = np.zeros(n_labels, dtype=np.int64)
    place = np.full(n_labels, n_labels)
    for number, group in enumerate(groups.values()):
        order = [label for label in group if first[label]] + [
            label for label in reversed(group) if not first[label]
        ]
        group_of[group] = number
        place[order] = np.arange(len(group))
    optimal = np.empty((losses.shape[1], n_labels), dtype=np.int64)
    for p, tied in enumerate((expected <= least + _TIE).T):
        sets = first ^ (flips[tied][:, group_of] > place)
        optimal[p] = sets[np.lexsort(sets.T[::-1])[0]]
    return optimal, least
