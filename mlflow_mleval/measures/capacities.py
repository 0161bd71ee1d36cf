"""Capacities: how much it is worth to be right on a set of labels, the Choquet loss they define,
and the predictions that minimise such losses.

A capacity mu gives every set of labels a weight, monotone in the set, mu(no label) = 0 and mu(all
labels) = 1. The loss of an instance is one minus the Choquet integral of its correctness u = 1 -
abs(s - y) with respect to mu (Hüllermeier et al. 2022, section 3). Capacities that depend only on
the number of labels have a short cut: `dependence.owa_loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from mlflow_mleval.measures.inputs import dense, error_blocks, slices, truth_and_scores
from mlflow_mleval.measures.owa import FAMILIES, family_weights, label_count, owa_weights
from mlflow_mleval.validation import AnyArray, Array, Bools, Ints, Places, binary_matrix, one_of

#: Up to this many labels every set is looked at, so that a capacity is checked as a whole.
MOST_TABULATED = 16
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Capacity:
    """A monotone, normalised weight of the sets of K labels; make one with `from_function`,
    `from_mobius`, `counting`, `binomial`, `polynomial` or `weighted`.

    Labels are numbered from 0. As a bitmask, a set has bit i (of value 2**i) for label i. A
    capacity may depend on which labels are relevant for the instance, so that being right on
    relevant labels can count for more.

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
    >>> mu.mobius().round(4)
    array([0.    , 0.1111, 0.1111, 0.2222, 0.1111, 0.2222, 0.2222, 0.    ])
    >>> Capacity.from_function(lambda labels: {0: 0, 1: 0.7, 2: 0.4, 3: 1}[len(labels)], 3)
    Traceback (most recent call last):
    ValueError: `capacity` must be monotone, got mu({0}) = 0.7 > mu({0, 1}) = 0.4 (of 6 such pairs). ...
    """  # noqa: E501

    n_labels: int
    #: mu of the labels order[n, i:] of every row n and i = 0..K, given the relevant labels.
    _chains: Callable[[Places, Bools], Array] = field(repr=False)

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
        n_labels = label_count(n_labels)
        if not relevance and n_labels <= MOST_TABULATED:
            sets = (frozenset(_labels(mask)) for mask in range(1 << n_labels))
            return _tabulated(np.array([function(labels) for labels in sets], float))._checked()

        def chains(order: Places, relevant: Bools) -> Array:
            answers = np.empty((len(order), n_labels + 1))
            asked: dict[tuple[frozenset[int], ...], float] = {}  # each different one once
            for n, labels in enumerate(order.tolist()):
                own = (frozenset(np.flatnonzero(relevant[n]).tolist()),) if relevance else ()
                for i in range(n_labels + 1):
                    key = (frozenset(labels[i:]), *own)
                    if key not in asked:
                        asked[key] = function(*key)
                    answers[n, i] = asked[key]
            return answers

        return cls(n_labels, chains)._checked()

    @classmethod
    def from_mobius(
        cls, masses: Mapping[Iterable[int], float] | ArrayLike, n_labels: int
    ) -> Capacity:
        """A capacity given by its Möbius transform m: mu(A) is the sum of m(T) over the subsets T
        of A (eq. 10).

        Parameters
        ----------
        masses : mapping from sets of label numbers to float, or array of shape (2**K,) by bitmask
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
        terms = _terms(masses, n_labels)
        if n_labels <= MOST_TABULATED:
            values = np.zeros(1 << n_labels)
            for labels, mass in terms:
                values[sum(1 << i for i in labels)] += mass
            for bit in _bits(values):
                bit[:, 1] += bit[:, 0]
            return _tabulated(values)._checked()
        total = sum(mass for _, mass in terms)
        if not abs(total - 1) <= _TOLERANCE or any(not labels for labels, _ in terms):
            raise ValueError(f"`masses` must sum to 1, none on the empty set, got {total}.")

        def chains(order: Places, relevant: Bools) -> Array:
            rank = np.argsort(order, axis=1)
            gained = np.zeros((len(order), n_labels + 1))
            for labels, mass in terms:  # a set is part of order[n, i:] up to its first label
                gained[np.arange(len(order)), rank[:, labels].min(axis=1)] += mass
            return np.cumsum(gained[:, ::-1], axis=1)[:, ::-1]

        return cls(n_labels, chains)

    @classmethod
    def counting(cls, v: Callable[[float], float] | ArrayLike, n_labels: int) -> Capacity:
        """A capacity that depends on the number of labels only: mu(A) = v(|A|/K) (section 4.2).

        v is callable and non-decreasing from v(0) = 0 to v(1) = 1, or an array of its values at 0,
        1/K, …, 1; else a ValueError names the sizes of the sets.

        >>> Capacity.counting([0, 0.5, 0.4, 1], 3)
        Traceback (most recent call last):
        ValueError: `capacity` must be monotone, got mu(1 of 3 labels) = 0.5 > mu(2 of 3 labels) ...
        """
        n_labels = label_count(n_labels)
        given = [v(j / n_labels) for j in range(n_labels + 1)] if callable(v) else v
        values = np.array(given, dtype=float)
        if values.shape != (n_labels + 1,):
            raise ValueError(f"`v` must have {n_labels + 1} values, got shape {values.shape}.")
        _check_ends(values[0], values[-1])
        falls = np.flatnonzero(~(np.diff(values) >= -_TOLERANCE))
        sizes = f"{{}} of {n_labels} labels"
        _check_steps(
            [(sizes.format(j), values[j], sizes.format(j + 1), values[j + 1]) for j in falls]
        )
        return _counting(np.diff(values)[::-1])

    @classmethod
    def binomial(cls, n_labels: int, k: int) -> Capacity:
        """The counting capacity C(|A|, k) / C(K, k), k in 1..K: only sets of k right labels are
        worth something (eq. 18).

        >>> Capacity.binomial(4, 2)({0, 1, 3})
        0.5
        """
        return _counting(owa_weights("binomial", label_count(n_labels), k))

    @classmethod
    def polynomial(cls, n_labels: int, alpha: float) -> Capacity:
        """The counting capacity (|A|/K)^alpha, alpha >= 1: the larger, the more a large set is
        worth (eq. 17).

        >>> Capacity.polynomial(4, 2)({0, 1})
        0.25
        """
        return _counting(owa_weights("polynomial", label_count(n_labels), alpha))

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
        value = v or (lambda share: share)
        factor = float(relevant_weight)
        capacity = _of_sums(weights, lambda part, whole: value(part / whole), factor)
        return capacity._checked()

    def __call__(self, labels: Iterable[int], relevant: Iterable[int] = ()) -> float:
        """mu of a set of label numbers, for an instance with these relevant labels."""
        sets = np.zeros((2, 1, self.n_labels), dtype=bool)
        for row, chosen in zip(sets, (labels, relevant), strict=True):
            chosen = list(chosen)
            if unknown := [i for i in chosen if i not in range(self.n_labels)]:
                raise ValueError(
                    f"`labels` and `relevant` must hold labels 0..{self.n_labels - 1}, got "
                    f"{unknown[:5]}."
                )
            row[0, chosen] = True
        return float(self._of_sets(*sets)[0])

    def _of_sets(self, members: Bools, relevant: Bools) -> Array:
        """mu of the set in each row of members N x K."""
        chains = self._chains(np.argsort(members, axis=1, kind="stable"), relevant)
        return chains[np.arange(len(members)), self.n_labels - members.sum(axis=1)]

    def values(self, relevant: Iterable[int] = ()) -> Array:
        """mu of every set by bitmask, shape (2**K,), for at most 16 labels."""
        if self.n_labels > MOST_TABULATED:
            raise ValueError(
                f"`values` must be asked for at most {MOST_TABULATED} labels, got {self.n_labels}."
            )
        sets = (np.arange(1 << self.n_labels)[:, None] >> np.arange(self.n_labels) & 1).astype(bool)
        instance = np.isin(np.arange(self.n_labels), list(relevant))
        return self._of_sets(sets, np.broadcast_to(instance, sets.shape))

    def mobius(self, relevant: Iterable[int] = ()) -> Array:
        """Möbius transform by bitmask, shape (2**K,), for at most 16 labels: the mass that is a
        set's alone (eq. 11).
        """
        masses = self.values(relevant).copy()
        for bit in _bits(masses):
            bit[:, 1] -= bit[:, 0]
        return masses

    def losses(self, errors: Array, relevant: Bools) -> Array:
        """Choquet loss of each row of errors, shape (N,), given the relevant labels of the same
        shape (eq. 14).

        With the errors sorted, e_(1) the largest, and A_(i) the labels whose error is the i-th
        largest or smaller, it is the sum of e_(i) (mu(A_(i)) - mu(A_(i+1))).
        """
        order = np.argsort(-errors, axis=1)
        chain = self._chains(order, relevant)
        steps = chain[:, :-1] - chain[:, 1:]
        for n in np.flatnonzero(~(abs(chain[:, 0] - 1) <= _TOLERANCE)):
            _check_ends(0.0, chain[n, 0])
        falls = np.argwhere(~(steps >= -_TOLERANCE))
        _check_steps(
            [
                (_set(order[n, i + 1 :]), chain[n, i + 1], _set(order[n, i:]), chain[n, i])
                for n, i in falls
            ]
        )
        return np.sum(np.take_along_axis(errors, order, axis=1) * steps, axis=1)

    def _checked(self) -> Capacity:
        """Itself, after a look at every set where labels are few, else at none and all."""
        if self.n_labels > MOST_TABULATED:
            _check_ends(self(()), self(range(self.n_labels)))
            return self
        values = self.values()
        _check_ends(values[0], values[-1])
        pairs = []
        for i, bit in enumerate(_bits(values)):
            for block, low in np.argwhere(~(bit[:, 0] <= bit[:, 1] + _TOLERANCE)):
                small = int(block << (i + 1) | low)
                sets = [(_set(_labels(mask)), values[mask]) for mask in (small, small | 1 << i)]
                pairs.append((*sets[0], *sets[1]))
        _check_steps(sorted(pairs, key=lambda pair: (len(pair[0]), pair[0], pair[2])))
        return self


def _terms(
    masses: Mapping[Iterable[int], float] | ArrayLike, n_labels: int
) -> list[tuple[list[int], float]]:
    """Sets of labels with their masses, where these are not 0."""
    if isinstance(masses, Mapping):
        pairs = [(sorted(set(labels)), float(mass)) for labels, mass in masses.items()]
    else:
        by_mask = np.asarray(masses, dtype=float)
        if n_labels > MOST_TABULATED or by_mask.shape != (1 << n_labels,):
            raise ValueError(
                "`masses` must be a mapping, or an array of 2**n_labels masses for at most "
                f"{MOST_TABULATED} labels, got shape {by_mask.shape} for {n_labels} labels."
            )
        pairs = [(_labels(int(m)), float(by_mask[m])) for m in np.flatnonzero(by_mask)]
    terms = [(labels, mass) for labels, mass in pairs if mass != 0]
    numbers = {i for labels, _ in terms for i in labels}
    if unknown := sorted((i for i in numbers if i not in range(n_labels)), key=str):
        raise ValueError(f"`masses` must be of labels 0..{n_labels - 1}, got {unknown[:5]}.")
    return terms


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
    if capacity.n_labels != y_true.shape[1]:
        raise ValueError(
            f"`capacity` must be of {y_true.shape[1]} labels, as `y_true`, got {capacity.n_labels}."
        )
    losses = np.empty(y_true.shape[0])
    for rows, truth, errors in error_blocks(y_true, y_score):
        losses[rows] = capacity.losses(errors, truth)
    return losses if per_instance else float(losses.mean())


# ---- capacities that are a function of a sum over the labels of a set ----------------------------


def _of_sums(
    weights: AnyArray, value: Callable[[AnyArray, AnyArray], Array], relevant_weight: float = 1
) -> Capacity:
    """A capacity of the weights of the labels in a set, as a part of those of all labels."""

    def chains(order: Places, relevant: Bools) -> Array:
        own = np.take_along_axis(weights * np.where(relevant, relevant_weight, 1), order, axis=1)
        below = np.pad(np.cumsum(own[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
        return value(below, below[:, :1])

    return Capacity(len(weights), chains)


def _tabulated(values: Array) -> Capacity:
    """mu of every set by bitmask."""
    n_labels = len(values).bit_length() - 1
    return _of_sums(np.int64(1) << np.arange(n_labels), lambda mask, _: values[mask])


def _counting(weights: Array) -> Capacity:
    """v(|A|/K), given as OWA weights, the weight of the largest error first."""
    by_size = np.append(0.0, np.cumsum(weights[::-1]))
    return _of_sums(np.ones(len(weights), np.int64), lambda size, _: by_size[size])


# ---- sets ----------------------------------------------------------------------------------------


def _labels(mask: int) -> list[int]:
    return [i for i in range(int(mask).bit_length()) if mask >> i & 1]


def _bits(values: Array) -> Iterable[Array]:
    """For each label a view of the values as (…, without or with the label, …)."""
    return (values.reshape(-1, 2, 1 << i) for i in range(len(values).bit_length() - 1))


def _set(labels: Iterable[int]) -> str:
    return "{" + ", ".join(map(str, sorted(int(i) for i in labels))) + "}"


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
# al. 2022, section 6); of labels that agree or disagree in every set only how many flip is tried.


MAX_CANDIDATES = 2**18
# expected losses that differ by less are taken for equal: they may differ by rounding alone
_TIE = 1e-13
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Optimum:
    """A label set of least expected loss, shape (K,), and that loss in [0, 1]; 0 is best."""

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
            f"`probabilities` must be one per label set, {n_sets}, got {probabilities.shape}."
        )
    if not (np.all(probabilities >= 0) and abs(probabilities.sum() - 1) <= 1e-9):
        raise ValueError(
            "`probabilities` must not be negative and sum to 1, got a smallest of "
            f"{probabilities.min()} and a sum of {probabilities.sum()}."
        )
    if not isinstance(loss, Capacity):
        if parameter is None:
            raise ValueError(f"`parameter` must be k or alpha of the {loss} loss, got None.")
        weights = owa_weights(one_of(loss, "loss", FAMILIES), n_labels, parameter)
        losses = _losses_by_errors(weights[None])
        found, expected = _minimise(label_sets, probabilities, losses, max_candidates)
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
        wrong, relevant = candidates != truth, np.broadcast_to(truth, candidates.shape)
        expected += probability * loss.losses(wrong.astype(float), relevant)
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
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multilabel-indicator"):
            raise ValueError(
                f"`y` must be a matrix of 0 and 1, got a {kind} target. Only binary "
                "classification is supported."
            )
        y = binary_matrix(y.reshape(len(y), -1) if isinstance(y, np.ndarray) else y, "y")
        if self.n_neighbors != int(self.n_neighbors) or not 1 <= self.n_neighbors <= X.shape[0]:
            raise ValueError(
                "`n_neighbors` must be an integer from 1 to n_samples = "
                f"{X.shape[0]}, got {self.n_neighbors!r}."
            )
        self.label_sets_ = dense(y)
        self.n_labels_ = y.shape[1]
        self.classes_ = np.arange(self.n_labels_)
        family = one_of(self.loss, "loss", FAMILIES)
        owa_weights(family, self.n_labels_, self.parameter)  # refuses bad ones now, not later
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
            own = self.label_sets_[neighbours]
            predicted[:, i], _ = _minimise(own, weights, losses, self.max_candidates)
        return predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags


def _losses_by_errors(weights: Array) -> Array:
    """Loss (K + 1, P) of label sets with 0, …, K wrong labels, of OWA weights (P, K)."""
    return np.vstack([np.zeros(len(weights)), np.cumsum(weights, axis=1).T])


def _minimise(
    label_sets: Bools, weights: Array, losses: Array, max_candidates: int
) -> tuple[Ints, Array]:
    """Label sets of least expected loss, (P, K), and the losses, by numbers of flips."""
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
            f"{len(label_sets)} label sets leave open, got {max_candidates}. Raise it."
        )
    flips = np.indices(tuple(sizes + 1)).reshape(len(sizes), -1).T.astype(np.float32)
    pattern = np.array([differs[:, group[0]] for group in groups.values()], dtype=np.float32)
    # Of g labels, t of them flipped, t are wrong in sets like the first, g - t in the others.
    n_errors = int(sizes.sum()) + 1
    expected = np.empty((n_candidates, losses.shape[1]))
    step = max(1, _BLOCK // max(len(label_sets), n_errors))
    for rows in slices(n_candidates, step):
        wrong = (flips[rows] @ (1 - 2 * pattern) + sizes @ pattern).astype(np.int64)
        cells = wrong + n_errors * np.arange(len(wrong))[:, None]
        each = np.broadcast_to(weights, wrong.shape).ravel()
        shares = np.bincount(cells.ravel(), each, len(wrong) * n_errors)
        expected[rows] = shares.reshape(-1, n_errors) @ losses[:n_errors]
    least = expected.min(axis=0)

    # First in lexicographic order: ones of the first set flip from the front, zeros from the back.
    group_of = np.zeros(n_labels, dtype=np.int64)
    place = np.full(n_labels, n_labels)
    for number, group in enumerate(groups.values()):
        order = [label for label in group if first[label]]
        order += [label for label in reversed(group) if not first[label]]
        group_of[group] = number
        place[order] = np.arange(len(group))
    optimal = np.empty((losses.shape[1], n_labels), dtype=np.int64)
    for p, tied in enumerate((expected <= least + _TIE).T):
        sets = first ^ (flips[tied][:, group_of] > place)
        optimal[p] = sets[np.lexsort(sets.T[::-1])[0]]
    return optimal, least
