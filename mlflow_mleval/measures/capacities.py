"""Capacities: how much it is worth to be right on a set of labels; the Choquet loss they define
(Hüllermeier et al. 2022, section 3; by numbers of labels alone, `owa_loss`); and its minimisers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from mlflow_mleval.measures.inputs import dense, error_blocks, truth_and_scores
from mlflow_mleval.measures.owa import FAMILIES, family_weights, label_count, owa_weights
from mlflow_mleval.validation import Array, Bools, Ints, binary_matrix, one_of

#: Up to this many labels every set is looked at, so that a capacity is checked as a whole.
MOST_CHECKED = 16
_MOST_KEPT = 1 << MOST_CHECKED  # values of a set function, each asked for once
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Capacity:
    """A monotone, normalised weight of the sets of K labels; make one with `from_function`,
    `from_mobius`, `counting` or `weighted`.

    Labels are numbered from 0. A capacity may depend on which labels are relevant for the instance,
    so that being right on relevant labels can count for more.

    Up to 16 labels, all sets are checked when the capacity is made (with no label relevant, if it
    depends on relevance). With more, and for the other relevances, each chain of sets that a loss
    needs is checked when it is needed.

    Attributes
    ----------
    n_labels : int
        K.

    >>> mu = Capacity.from_function(lambda labels: (len(labels) / 3) ** 2, 3)
    >>> round(mu({0, 2}), 4)
    0.4444
    >>> Capacity.from_function(lambda labels: {0: 0, 1: 0.7, 2: 0.4, 3: 1}[len(labels)], 3)
    Traceback (most recent call last):
    ValueError: `capacity` must be monotone, got mu({0}) = 0.7 > mu({0, 1}) = 0.4 (of 6 such pairs). ...
    """  # noqa: E501

    n_labels: int
    #: mu of the set in each row of members N x K, given the relevant labels of each.
    _of_sets: Callable[[Bools, Bools], Array] = field(repr=False)

    def __post_init__(self) -> None:
        if self.n_labels > MOST_CHECKED:
            _check_ends(self(()), self(range(self.n_labels)))
            return
        masks = np.arange(1 << self.n_labels)[:, None]
        sets = (masks >> np.arange(self.n_labels) & 1).astype(bool)
        values = self._of_sets(sets, np.zeros_like(sets))
        _check_ends(values[0], values[-1])
        small, label = np.nonzero(~sets)
        large = small | 1 << label
        falls = ~(values[small] <= values[large] + _TOLERANCE)
        pairs = zip(small[falls], large[falls], strict=True)
        _check_steps([(_set(sets[i]), values[i], _set(sets[j]), values[j]) for i, j in pairs])

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], n_labels: int, *, relevance: bool = False
    ) -> Capacity:
        """A capacity given as a set function; a ValueError names the sets where it is not monotone
        or not normalised.

        Parameters
        ----------
        function : callable
            Gives mu(A) of K labels, ``n_labels``, of a frozenset of label numbers.
        relevance : bool
            Whether the capacity depends on the relevant labels: ``function`` takes the set of these
            as its second argument.
        """
        once = lru_cache(_MOST_KEPT)(function)

        def of_sets(members: Bools, relevant: Bools) -> Array:
            sides = (members, relevant) if relevance else (members,)
            values = []
            for rows in zip(*sides, strict=True):
                values.append(once(*(frozenset(np.flatnonzero(row).tolist()) for row in rows)))
            return np.array(values, float)

        return cls(label_count(n_labels), of_sets)

    @classmethod
    def from_mobius(cls, masses: Mapping[Iterable[int], float], n_labels: int) -> Capacity:
        """A capacity given by its Möbius transform m: mu(A) is the sum of m(T) over the subsets T
        of A (eq. 10).

        Parameters
        ----------
        masses : mapping from sets of label numbers to float
            Sets that are missing have mass 0.

        Raises
        ------
        ValueError
            Unknown labels, masses that do not sum to 1, a capacity that is not monotone; the sets
            are named.

        >>> pairs = Capacity.from_mobius({(0, 1): 0.5, (1, 2): 0.5}, 3)
        >>> pairs({0, 1}), pairs({0, 2})
        (0.5, 0.0)
        """
        n_labels = label_count(n_labels)
        terms = [(list(labels), float(mass)) for labels, mass in masses.items()]
        _refuse_unknown("masses", chain.from_iterable(labels for labels, _ in terms), n_labels)

        def of_sets(members: Bools, relevant: Bools) -> Array:
            values = np.zeros(len(members))
            for labels, mass in terms:
                values += mass * members[:, labels].all(axis=1)
            return values

        return cls(n_labels, of_sets)

    @classmethod
    def counting(cls, v: Callable[[float], float], n_labels: int) -> Capacity:
        """A capacity that depends on the number of labels only: mu(A) = v(|A|/K) (section 4.2).

        v is non-decreasing from v(0) = 0 to v(1) = 1; else a ValueError names the sets.

        >>> Capacity.counting(lambda share: share**2, 4)({0, 1})
        0.25
        """
        n_labels = label_count(n_labels)
        by_size = np.array([v(j / n_labels) for j in range(n_labels + 1)], float)
        return cls(n_labels, lambda members, _: by_size[members.sum(axis=1)])

    @classmethod
    def weighted(
        cls,
        weights: ArrayLike,
        v: Callable[[Array], Array] | None = None,
        *,
        relevant_weight: float = 1.0,
    ) -> Capacity:
        """Labels of unequal importance: mu(A) = v(w(A) / w(all labels)) with w(A) the sum of the
        weights in A.

        Parameters
        ----------
        weights : array, shape (K,)
            Not negative, not all 0; only their ratios count.
        v : callable, optional
            From arrays in [0, 1] to arrays, non-decreasing, v(0) = 0, v(1) = 1; convex to reward
            larger sets, as ``lambda x: x**alpha``. By default v(x) = x: the label-weighted Hamming
            loss.
        relevant_weight : float
            Positive factor on the weights of the labels that are relevant for the instance; above
            1, errors on relevant labels (recall) cost more than those on irrelevant ones
            (precision).

        >>> mu = Capacity.weighted([1, 1, 2], relevant_weight=3)
        >>> mu({2}), mu({2}, relevant={2})
        (0.5, 0.75)
        """
        weights = np.asarray(weights, dtype=float)
        fit = weights.ndim == 1 and np.all((weights >= 0) & np.isfinite(weights))
        if not fit or not weights.any():
            raise ValueError("`weights` must be finite numbers, none negative and not all 0.")
        if not 0 < relevant_weight < np.inf:
            raise ValueError(f"`relevant_weight` must lie in (0, inf), got {relevant_weight!r}.")

        def of_sets(members: Bools, relevant: Bools) -> Array:
            own = weights * np.where(relevant, relevant_weight, 1)
            shares = (own * members).sum(axis=1) / own.sum(axis=1)
            return shares if v is None else v(shares)

        return cls(len(weights), of_sets)

    def __call__(self, labels: Iterable[int], relevant: Iterable[int] = ()) -> float:
        """mu of a set of label numbers, for an instance with these relevant labels."""
        sets = np.zeros((2, 1, self.n_labels), dtype=bool)
        for row, chosen in zip(sets, (list(labels), list(relevant)), strict=True):
            _refuse_unknown("labels` and `relevant", chosen, self.n_labels)
            row[0, chosen] = True
        return float(self._of_sets(*sets)[0])

    def losses(self, errors: Array, relevant: Bools) -> Array:
        """Choquet loss of each row of errors, shape (N,), given the relevant labels of the same
        shape (eq. 14).

        With the errors sorted, e_(1) the largest, and A_(i) the labels whose error is the i-th
        largest or smaller, it is the sum of e_(i) (mu(A_(i)) - mu(A_(i+1))).
        """
        order = np.argsort(-errors, axis=1)
        rank = np.argsort(order, axis=1)
        values = np.stack([self._of_sets(rank >= i, relevant) for i in range(self.n_labels + 1)], 1)
        for n in np.flatnonzero(~(abs(values[:, 0] - 1) <= _TOLERANCE)):
            _check_ends(0.0, values[n, 0])
        pairs = [
            (_set(rank[n] > i), values[n, i + 1], _set(rank[n] >= i), values[n, i])
            for n, i in np.argwhere(~(values[:, 1:] <= values[:, :-1] + _TOLERANCE))
        ]
        _check_steps(pairs)
        sorted_errors = np.take_along_axis(errors, order, axis=1)
        return np.sum(sorted_errors * (values[:, :-1] - values[:, 1:]), axis=1)


def choquet_loss(
    y_true: Any, y_score: Any, capacity: Capacity, *, per_instance: bool = False
) -> Any:
    """One minus the Choquet integral of the correctness, mean over instances; 0 is best, 1 worst.

    Hüllermeier et al. 2022, eq. 14; for hard predictions 1 - mu(labels predicted right).

    Parameters
    ----------
    y_true, y_score, per_instance
        As for `mlflow_mleval.owa_loss`, which says what is returned and raised.
    capacity : Capacity
        Of K labels. One of another number of labels is a ValueError, and one that shows itself not
        to be monotone; the sets that do are named.

    >>> mu = Capacity.weighted([1, 1, 2])
    >>> float(choquet_loss([[0, 1, 1]], [[0, 1, 0]], mu))
    0.5
    """
    if not isinstance(capacity, Capacity):
        raise TypeError(f"`capacity` must be a Capacity, got {type(capacity).__name__}. Make one.")
    y_true, y_score = truth_and_scores(y_true, y_score)
    n_rows, n_labels = y_true.shape
    if capacity.n_labels != n_labels:
        want = f"{n_labels} labels, as `y_true`"
        raise ValueError(f"`capacity` must be of {want}, got {capacity.n_labels}.")
    losses = np.empty(n_rows)
    for rows, truth, errors in error_blocks(y_true, y_score):
        losses[rows] = capacity.losses(errors, truth)
    return losses if per_instance else float(losses.mean())


# ---- sets ----------------------------------------------------------------------------------------


def _set(members: Bools) -> str:
    return "{" + ", ".join(map(str, np.flatnonzero(members))) + "}"


def _refuse_unknown(name: str, labels: Iterable[Any], n_labels: int) -> None:
    if unknown := sorted({i for i in labels if i not in range(n_labels)}, key=str):
        raise ValueError(f"`{name}` must hold labels 0..{n_labels - 1}, got {unknown[:5]}.")


def _check_ends(empty: float, full: float) -> None:
    if not (abs(empty) <= _TOLERANCE and abs(full - 1) <= _TOLERANCE):
        raise ValueError(
            f"`capacity` must be normalised, mu({{}}) = 0 and mu(all labels) = 1, got {empty:g} "
            f"and {full:g}. Subtract the first and divide by the difference."
        )


def _check_steps(pairs: Sequence[tuple[str, float, str, float]]) -> None:
    """Raise a ValueError about pairs of a set and a larger set that is worth less."""
    if pairs:
        small, low, large, high = pairs[0]
        raise ValueError(
            f"`capacity` must be monotone, got mu({small}) = {low:g} > mu({large}) = {high:g} (of "
            f"{len(pairs)} such pairs). Give no set less than any of its subsets."
        )


# ---- minimisers of an expected loss --------------------------------------------------------------
# Labels on which all sets of a distribution agree are fixed (the consensus rule of Hüllermeier et
# al. 2022, section 6); the rest is enumerated.


#: Most labels that may be open; 2**18 label sets are compared in a second or so.
MOST_OPEN = 18
# expected losses that differ by less are taken for equal: they may differ by rounding alone
_TIE = 1e-13


@dataclass(frozen=True, eq=False)
class Optimum:
    """A label set of least expected loss, shape (K,), and that loss in [0, 1]; 0 is best."""

    label_set: Ints
    expected_loss: float


def bayes_optimal(
    label_sets: Any, probabilities: ArrayLike, loss: str = "binomial", parameter: float = 1
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
    loss : {"binomial", "polynomial"}
    parameter : float
        k or alpha of the family.

    Raises
    ------
    ValueError, TypeError
        Label sets other than 0 and 1, probabilities as above, an unknown loss, a parameter out of
        range, more than 18 labels on which the sets differ.

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
        want = f"one per label set, {n_sets}"
        raise ValueError(f"`probabilities` must be {want}, got {probabilities.shape}.")
    if not (np.all(probabilities >= 0) and abs(probabilities.sum() - 1) <= 1e-9):
        got = f"a smallest of {probabilities.min()} and a sum of {probabilities.sum()}"
        raise ValueError(f"`probabilities` must not be negative and sum to 1, got {got}.")
    weights = owa_weights(one_of(loss, "loss", FAMILIES), n_labels, parameter)
    losses = np.append(0, np.cumsum(weights))[:, None]
    found, expected = _minimise(label_sets, probabilities, losses)
    return Optimum(found[0], float(expected[0]))


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

    def __init__(self, n_neighbors: int = 9, *, loss: str = "binomial", parameter: float = 1):
        self.n_neighbors = n_neighbors
        self.loss = loss
        self.parameter = parameter

    def fit(self, X: Any, y: Any) -> NearestNeighbourMinimiser:
        """Keep the instances, shape (N, F), and their label sets, an array or scipy.sparse matrix
        of 0 and 1, shape (N, K).

        A ValueError is raised for other labels, fewer instances than neighbours, an unknown loss or
        a parameter out of range.
        """
        X, y = validate_data(self, X, y, multi_output=True)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multilabel-indicator"):
            hint = "Only binary classification is supported."
            raise ValueError(f"`y` must be a matrix of 0 and 1, got a {kind} target. {hint}")
        y = binary_matrix(y.reshape(len(y), -1) if isinstance(y, np.ndarray) else y, "y")
        if self.n_neighbors != int(self.n_neighbors) or not 1 <= self.n_neighbors <= X.shape[0]:
            want = f"an integer from 1 to n_samples = {X.shape[0]}"
            raise ValueError(f"`n_neighbors` must be {want}, got {self.n_neighbors!r}.")
        self.label_sets_ = dense(y)
        self.n_labels_ = y.shape[1]
        self.classes_ = np.arange(self.n_labels_)
        family = one_of(self.loss, "loss", FAMILIES)
        owa_weights(family, self.n_labels_, self.parameter)  # refuses bad ones now, not later
        self.neighbours_ = NearestNeighbors(n_neighbors=self.n_neighbors, metric="manhattan").fit(X)
        return self

    def predict(self, X: Any) -> Ints:
        """Label sets of least mean loss, shape (N, K).

        A ValueError is raised where the neighbours of an instance differ on more than 18 labels.
        """
        return self.predict_all(X, [self.parameter])[0]

    def predict_all(self, X: Any, parameters: ArrayLike) -> Ints:
        """Predictions for several values of k or alpha, shape (P, N, K), for little more than the
        cost of one; see `predict`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        of_errors = family_weights(self.loss, self.n_labels_, parameters).T
        losses = np.vstack([np.zeros(of_errors.shape[1]), np.cumsum(of_errors, axis=0)])
        weights = np.full(self.n_neighbors, 1 / self.n_neighbors)
        predicted = np.empty((losses.shape[1], X.shape[0], self.n_labels_), dtype=np.int64)
        for i, neighbours in enumerate(self.neighbours_.kneighbors(X, return_distance=False)):
            predicted[:, i], _ = _minimise(self.label_sets_[neighbours], weights, losses)
        return predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags


def _minimise(label_sets: Bools, weights: Array, losses: Array) -> tuple[Ints, Array]:
    """Label sets of least expected loss, (P, K), and that loss; of equal ones the first in
    lexicographic order. `losses` (K + 1, P) are those of 0, …, K wrong labels."""
    open_labels = np.flatnonzero((label_sets != label_sets[0]).any(axis=0))
    n_open = len(open_labels)
    if n_open > MOST_OPEN:
        got = f"{n_open} on which they differ. Use fewer label sets or neighbours."
        raise ValueError(f"`label_sets` must agree on all but {MOST_OPEN} labels, got {got}")
    masks = np.arange(1 << n_open)[:, None]
    candidates = (masks >> np.arange(n_open)[::-1] & 1).astype(np.int64)
    expected = np.zeros((len(candidates), losses.shape[1]))
    for own, weight in zip(label_sets[:, open_labels], weights, strict=True):
        expected += weight * losses[(candidates != own).sum(axis=1)]
    least = expected.min(axis=0)
    optimal = np.tile(label_sets[0].astype(np.int64), (losses.shape[1], 1))
    optimal[:, open_labels] = candidates[np.argmax(expected <= least + _TIE, axis=0)]
    return optimal, least
