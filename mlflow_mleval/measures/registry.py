"""Every measure the project knows, as a row by which logging, reading, intervals, rankings and
pages go, and what formulas are made of. What others call their metrics is in `metric_names`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from mlflow_mleval.sentences import count, did_you_mean, some
from mlflow_mleval.validation import AnyArray, Array

Conventions = Literal["sklearn", "mulan"]
CONVENTIONS: tuple[str, ...] = ("sklearn", "mulan")
NAN = float("nan")
#: A value, and what it can be wrong by.
Bounded: TypeAlias = tuple[float, float]


def ratio(part: Any, whole: Any, otherwise: Any = 0.0) -> Array:
    """The part of a whole, in counts or weights; where there is no whole, what stands for it."""
    quotient = np.broadcast_to(np.asarray(otherwise, float), np.shape(whole)).copy()
    return np.divide(part, whole, out=quotient, where=np.asarray(whole) > 0)


@dataclass(frozen=True, eq=False)
class Counts:
    """Sizes, or weights, of Y ∩ Ŷ, Ŷ and Y, of each instance or of each label."""

    shared: AnyArray
    predicted: AnyArray
    true: AnyArray
    cells: float  # that each set is taken from: labels, instances, or both
    empty: float = 0.0  # what two empty sets count; NaN: what nothing is divided by is NaN
    of_classes: bool = False  # of one label of several classes

    @property
    def pooled(self) -> Counts:
        """Those of all sets together."""
        sums: dict[str, Any] = {name: getattr(self, name).sum(keepdims=True) for name in _SIZES}
        return replace(self, **sums, cells=self.cells * len(self.true))

    def ratio(self, part: AnyArray, whole: AnyArray) -> Array:
        """A rate; of two empty sets, and of one, what the conventions say."""
        nothing = self.predicted + self.true == 0
        otherwise = np.where(nothing, self.empty, 0.0 if self.empty == self.empty else NAN)
        return ratio(part, whole, otherwise)


_SIZES = ("shared", "predicted", "true")


def jaccard(c: Counts) -> Array:
    """|Y∩Ŷ| / |Y∪Ŷ|."""
    return c.ratio(c.shared, c.predicted + c.true - c.shared)


def precision(c: Counts) -> Array:
    """|Y∩Ŷ| / |Ŷ|. Madjarov et al. 2012 (A.3, A.4) print the denominators of precision and recall
    the wrong way round; their tables follow these."""
    return c.ratio(c.shared, c.predicted)


def recall(c: Counts) -> Array:
    """|Y∩Ŷ| / |Y|."""
    return c.ratio(c.shared, c.true)


def f1(c: Counts) -> Array:
    """2|Y∩Ŷ| / (|Y| + |Ŷ|)."""
    return c.ratio(2 * c.shared, c.predicted + c.true)


def hamming(c: Counts) -> Array:
    """The share of cells in only one of the two sets."""
    return (c.predicted + c.true - 2 * c.shared) / c.cells


def exact(c: Counts) -> Array:
    """1 where the sets are equal."""
    return (c.predicted + c.true == 2 * c.shared).astype(float)


def matthews(c: Counts) -> Array:
    """Correlation of the two sets over the cells; 0 where one is empty or has all."""
    sizes = (c.shared, c.predicted, c.true)
    tp, predicted, true = (np.asarray(size, float) / (c.cells or 1) for size in sizes)
    spread = np.sqrt(np.maximum(predicted * (1 - predicted), 0) * np.maximum(true * (1 - true), 0))
    # of weights, less is what rounding leaves of none
    return ratio(tp - predicted * true, np.where(spread > 1e-12, spread, 0))


def balanced(c: Counts) -> Array:
    """Of one label the recall of each class; else the mean recall of true and of other cells."""
    if c.of_classes:
        return recall(c)
    there = c.true > 0, c.true < c.cells
    outside = c.cells - c.true
    recalls = ratio(c.shared, c.true), ratio(outside - c.predicted + c.shared, outside)
    return np.where(there, recalls, 0).sum(axis=0) / np.maximum(np.sum(there, axis=0), 1)


# ---- averages over labels ------------------------------------------------------------------------


def seen(c: Counts) -> AnyArray:
    """Each label counts once; of one label, each class that is true or predicted somewhere."""
    return (c.predicted + c.true > 0 if c.of_classes else np.ones(len(c.true))).astype(float)


def occurring(c: Counts) -> AnyArray:
    """Each label counts once; of one label, each class that is true somewhere."""
    return (c.true > 0 if c.of_classes else np.ones(len(c.true))).astype(float)


def support(c: Counts) -> AnyArray:
    """A label counts as often as it is true."""
    return c.true


@dataclass(frozen=True)
class OverLabels:
    """The average of a rate over labels, NaN where none counts, or its value for all labels
    `pooled`; what an instance moves is the jackknife of each label (Efron 1982)."""

    rate: Callable[[Counts], Array]
    weight: Callable[[Counts], AnyArray] = seen
    pooled: bool = False

    def __call__(self, sums: Any) -> float:
        if self.pooled:
            return float(self.rate(sums.counts.pooled)[0])
        return _average(self.rate(sums.counts), self.weight(sums.counts))

    def slopes(self, counts: Counts) -> Array:
        """What a shared, a predicted and a true cell of each label add, shape (3, K)."""
        n_labels = len(counts.true)
        counts = counts.pooled if self.pooled else counts
        rate = self.rate(counts)
        weight = np.ones(1) if self.pooled else self.weight(counts)
        total = weight.sum()
        value = _average(rate, weight)
        added = []
        for kind in ((1, 1, 1), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
            # each set without one cell that was so; what nothing is left of keeps its rate
            one = zip(_SIZES, kind, strict=True)
            sizes: Any = {name: np.maximum(getattr(counts, name) - n, 0) for name, n in one}
            less = replace(counts, **sizes, cells=max(counts.cells - 1, 0), empty=NAN)
            left = self.rate(less)
            left = np.where(np.isnan(left), rate, left)
            fewer = kind[2] * (self.weight is support and not self.pooled)
            change = weight * rate - (weight - fewer) * left - fewer * value
            added.append(change / total if total else np.zeros_like(change))
        hit, wrong, missed, rest = added
        slopes = np.array([hit - wrong - missed + rest, wrong - rest, missed - rest])
        return np.broadcast_to(slopes, (3, n_labels))


def _average(values: Array, weights: AnyArray) -> float:
    total = weights.sum()
    return float(values @ weights / total) if total else NAN


def _derivatives(function: Callable[..., Any], values: Sequence[float]) -> list[float]:
    """By each value, of a function in plain arithmetic: complex steps."""
    steps = (
        [value + 1e-30j if i == j else value for j, value in enumerate(values)]
        for i in range(len(values))
    )
    return [complex(function(*moved)).imag / 1e-30 for moved in steps]


@dataclass(frozen=True)
class OfClasses:
    """A function of the sums over classes of `_sums`; `otherwise` where it divides by 0."""

    function: Callable[..., Any]
    otherwise: float

    @staticmethod
    def _sums(c: Counts) -> list[float]:
        """Right instances, all, products of true and predicted class sizes, and the room of either
        side, which is 0 where it has one class; whole numbers of any size, or weights."""
        predicted, true = c.predicted.tolist(), c.true.tolist()
        chance = sum(a * b for a, b in zip(predicted, true, strict=True))
        rooms = (sum(side) ** 2 - sum(a * a for a in side) for side in (predicted, true))
        return [c.shared.sum().item(), c.true.sum().item(), chance, *rooms]

    def __call__(self, sums: Any) -> float:
        try:
            return float(self.function(*self._sums(sums.counts)))
        except ZeroDivisionError:
            return self.otherwise

    def slopes(self, counts: Counts) -> Array:
        """Derivatives by the shared, predicted and true cells of each class, shape (3, C)."""
        predicted, true = (np.asarray(side, float) for side in (counts.predicted, counts.true))
        try:
            right, _, chance, *rooms = _derivatives(self.function, self._sums(counts))
        except ZeroDivisionError:
            return np.zeros((3, len(true)))
        by_predicted = chance * true - 2 * rooms[0] * predicted
        by_true = chance * predicted - 2 * rooms[1] * true
        return np.array([np.full_like(true, right), by_predicted, by_true])


def class_matthews(right: Any, n: Any, chance: Any, predicted: Any, true: Any) -> Any:
    """Matthews' correlation of several classes (Gorodkin 2004)."""
    return (right * n - chance) / (predicted**0.5 * true**0.5)


def kappa(right: Any, n: Any, chance: Any, *_: Any) -> Any:
    """Cohen's kappa."""
    return (right * n - chance) / (n * n - chance)


# ---- functions of means, and of what is counted by score -----------------------------------------


@dataclass(frozen=True)
class OfMeans:
    """A function of means of columns, in plain arithmetic: its derivative is a complex step."""

    function: Callable[..., Any]
    columns: tuple[str, ...]

    def __call__(self, sums: Any) -> float:
        if not sums.means.keys() >= {*self.columns}:
            return NAN
        return float(self.function(*(sums.means[name] for name in self.columns)))

    def derivatives(self, sums: Any) -> dict[str, float]:
        """By the mean of each column."""
        means = [sums.means[name] for name in self.columns]
        return dict(zip(self.columns, _derivatives(self.function, means), strict=True))


def share(part: Any, whole: Any) -> Any:
    """The part of a whole, NaN without one."""
    return part / whole if whole else NAN


def share_of_sets(part: Any, whole: Any, other: Any) -> Any:
    """The part of the one of two sets; 1 where both are empty, 0 where only this is."""
    return part / whole if whole else float(not other)


@dataclass(frozen=True)
class Area:
    """The area under a curve, ``auroc``, ``ap`` or ``interpolated``, and what it can be off by: of
    all labels pooled ("micro"), or averaged where defined ("macro"), by positives ("weighted")."""

    curve: str
    average: str

    def __call__(self, sums: Any) -> Bounded:
        counts = sums.counts_by_score
        if counts is None:
            return NAN, 0.0
        if self.average == "micro":
            values, off = getattr(counts.pooled, self.curve)
            return float(values[0]), float(off[0])
        values, off = getattr(counts, self.curve)
        defined = ~np.isnan(values)
        positives = counts.totals[0][defined]
        weights = positives if self.average == "weighted" else np.ones(len(positives))
        return _average(values[defined], weights), _average(off[defined], weights)


def over_thresholds(name: str) -> Callable[[Any], Bounded]:
    """A measure of `ThresholdSums`, and what it can be wrong by."""
    return lambda sums: (
        getattr(sums.thresholds, name)()
        if sums.thresholds is not None and sums.errors is not None
        else (NAN, 0.0)
    )


def profile(kind: str, summary: str) -> Callable[[Any], float]:
    """A summary of the binomial loss profile of scores ("soft") or label sets ("hard")."""
    return lambda sums: float(sums.awareness[kind].get(summary, NAN))


# ---- measures as rows ----------------------------------------------------------------------------

INF = float("inf")
#: The k of measures of the k highest scores, and the bins of the calibration error, that are usual.
TOP = 5
BINS = 15
#: Of more labels than this, measures at k are computed unasked: nobody reads label sets there.
MANY_LABELS = 1000
LEVEL_NAME = re.compile(r"level_([1-9][0-9]{0,3})_(precision|recall|f1)")
AT_K_NAME = re.compile(r"(precision|recall|ndcg|psp|psndcg)_at_([1-9][0-9]{0,5})")
TOP_NAME = re.compile(r"top_k_accuracy_([1-9][0-9]{0,5})")
ECE_NAME = re.compile(r"ece_([1-9][0-9]{0,4})")
DISTANCE_NAME = re.compile(r"distance_at_([1-9][0-9]{0,5})")
Direction = Literal["min", "max"]
#: A function of sums over instances: its value, else NaN, maybe with what it can be wrong by.
Formula = Callable[[Any], float | Bounded]

#: What is predicted of an instance: labels, one of several classes, or classes of a hierarchy.
LABEL_SETS = "label sets"
ONE_LABEL = "one label"
CLASS_SETS = "class sets"
Kinds: TypeAlias = tuple[str, ...]

MADJAROV = "Madjarov et al. 2012, appendix A"
HUELLERMEIER = "Hüllermeier et al. 2022"
KOSMOPOULOS = "Kosmopoulos et al. 2015"
SOKOLOVA = "Sokolova & Lapalme 2009"


@dataclass(frozen=True)
class Measure:
    """One measure. Without a formula it is the mean of the column of its name, `each` or of a pass;
    its interval follows from `slopes` or `derivatives` of the formula, or from the column."""

    name: str  # key in Evaluation.measures and, behind mleval/, of the metric in MLflow
    direction: Direction
    range: tuple[float, float]  # that the definition allows; inf where there is no bound
    summary: str  # the definition in a line
    formula: Formula | None = None
    each: Callable[[Counts], Array] | None = None
    family: str = ""
    source: str = ""  # the publication that defines it
    kinds: Kinds = (LABEL_SETS,)  # which predictions have it; hierarchical ones with a hierarchy
    convention: str = ""  # what the definition leaves open and is settled here
    asked: Kinds = ()  # of the kinds: where it is computed only if it is named

    def is_of(self, kind: str, asked: Collection[str]) -> bool:
        """Whether it is computed of predictions of a kind, where these measures were asked for."""
        return kind in self.kinds and (kind not in self.asked or self.name in asked)

    @property
    def arrow(self) -> str:
        """``↑`` where larger is better, ``↓`` where smaller is."""
        return "↑" if self.direction == "max" else "↓"

    @property
    def sign(self) -> int:
        """What a value is multiplied by so that larger is better."""
        return 1 if self.direction == "max" else -1


def gain(
    name: str, summary: str, formula: Formula | None = None, low: float = 0, **more: Any
) -> Measure:
    """A measure between `low` and 1, of which 1 is best."""
    return Measure(name, "max", (low, 1), summary, formula, **more)


def loss(
    name: str, summary: str, formula: Formula | None = None, high: float = 1, **more: Any
) -> Measure:
    """A measure from 0, which is best, to `high`."""
    return Measure(name, "min", (0, high), summary, formula, **more)


unbounded = partial(loss, high=INF)


def _family(
    family: str, source: str, kinds: Kinds, convention: str = "", asked: Kinds = ()
) -> Callable[..., list[Measure]]:
    """What gives rows all that those of one family and source share."""
    return lambda *rows: [
        replace(row, family=family, source=source, kinds=kinds, convention=convention, asked=asked)
        for row in rows
    ]


_ALL = (LABEL_SETS, ONE_LABEL, CLASS_SETS)
_FLAT = (ONE_LABEL, LABEL_SETS)
_SETS = (LABEL_SETS,)
_ONE = (ONE_LABEL,)
# What definitions leave open and is settled here, beside what single rows say.
_EMPTY = "two empty sets count 0 (sklearn) or 1 (mulan), one empty set 0"
_CLASSES = (
    "averages are over the classes that are true or predicted somewhere; what is never predicted "
    "has precision 0"
)
_BALANCED = (
    "not adjusted for chance, of classes that occur; of label sets the mean over labels, each of "
    "two classes"
)
_CLIPPED = (
    "of label sets the mean over label cells; probabilities are clipped to the epsilon of their "
    "type, as in scikit-learn"
)
_OVER_CLASSES = (
    "the mean over classes or labels, too: with more than two classes scikit-learn's score is C "
    "times as large"
)
_SECOND = (
    "of two classes the second; classes or labels without instances, or with all, are left out; "
    "ties count half"
)
_AS_STEPS = "labels without instances are left out; not interpolated, as in scikit-learn"
_CURVED = "interpolated as Davis & Goadrich 2006 do; labels without instances are left out"
_ONE_VALUE = "0 where truth or prediction is all one value"
_AT_THRESHOLDS = (
    "at any threshold; a class has the highest score of its own and of the classes below it, and "
    "roots count; precision is the mean over instances with a predicted class, recall over those "
    "with a true one; a score of 0 predicts nothing; a class is worth −log2 of its share of the "
    "training instances that have all its parents, of which one has it at least"
)
_TIES = "of equal scores the lower label comes first; a score of 0 is none, and misses fill up to k"

# ---- measures with a number in their names -------------------------------------------------------

_HITS = "true labels among the {k} with the highest scores, divided by"
_OF_BEST = "at {k}, true labels weighing 1 / propensity, as a share of the best possible"
#: Definitions of measures whose names carry k.
_AT_K = {
    "precision": _HITS + " {k}, averaged",
    "recall": _HITS + " all true ones, averaged",
    "ndcg": "discounted gain at {k} as a share of the best possible, averaged",
    "psp": f"precision {_OF_BEST}",
    "psndcg": f"nDCG {_OF_BEST}",
}
#: What the columns of gained and of best possible propensity-scored sums end with.
GAIN = "_gain"
BEST = "_best"


def _at_k(name: str, k: str | int) -> list[Measure]:
    source = "Järvelin & Kekäläinen 2002" if name == "ndcg" else "Jain et al. 2016"
    full = f"{name}_at_{k}"
    row, settled = gain(full, _AT_K[name].format(k=k)), _TIES
    if name.startswith("ps"):
        row = replace(row, formula=OfMeans(share, (full + GAIN, full + BEST)))
        settled += "; the best that is possible is summed over instances, too"
    return _family("at-k", source, _SETS, settled, asked=_SETS)(row)


def _at_level(level: str | int, name: str) -> list[Measure]:
    rate = "F1" if name == "f1" else name
    text = f"{rate} of set sizes summed over instances, of the classes at level {level} alone"
    settled = (
        "sets are extended by ancestors; a class is one level below its lowest parent, roots are "
        "at level 1"
    )
    shared, true, pred = (f"level_{level}_{part}" for part in SET_SIZES)
    formula = {
        "precision": OfMeans(share, (shared, pred)),
        "recall": OfMeans(share, (shared, true)),
        "f1": OfMeans(lambda both, a, b: share(2 * both, a + b), (shared, true, pred)),
    }[name]
    row = gain(f"level_{level}_{name}", text, formula)
    return _family("hierarchical-level", KOSMOPOULOS, _ALL, settled, asked=_ALL)(row)


def _top_k(k: str | int) -> list[Measure]:
    text = f"share of instances whose class is among the {k} with the highest scores"
    most = int(k)

    def read(sums: Any) -> float:
        ranks = sums.ranks
        missing = ranks is None or most >= len(ranks)
        return NAN if missing else float(ranks[:most].sum() / sums.size)

    row = gain(f"top_k_accuracy_{k}", text, read)
    settled = "of equal scores the first class comes first; absent with at most k classes"
    return _family("at-k", SOKOLOVA, _ONE, settled, asked=() if most == TOP else _ONE)(row)


def _calibration(bins: str | int) -> list[Measure]:
    n = int(bins)
    text = f"calibration error of the highest probability, over {count(n, 'bin')} of equal numbers"
    row = loss(
        f"ece_{bins}",
        text,
        lambda sums: sums.confidence.calibration_error(n) if sums.confidence else (NAN, 0.0),
    )
    settled = "of label sets over all label cells; equal probabilities stay in one bin"
    asked = _SETS if n == BINS else _FLAT
    return _family("probability", "Naeini et al. 2015", _FLAT, settled, asked=asked)(row)


def _distance_at(k: str | int) -> list[Measure]:
    text = f"mean shortest path between a true class and one of the {k} with the highest scores"
    settled = (
        "paths run through common ancestors; of equal scores the first comes first; of label "
        "sets a score of 0 is none"
    )
    row = unbounded(f"distance_at_{k}", text)
    return _family("hierarchical-pair", "Deng et al. 2010", _FLAT, settled, asked=_FLAT)(row)


#: Measures by the form of their names, and what makes them of the groups of the form.
_FORMS: Mapping[re.Pattern[str], Callable[..., list[Measure]]] = {
    AT_K_NAME: _at_k,
    LEVEL_NAME: _at_level,
    TOP_NAME: _top_k,
    ECE_NAME: _calibration,
    DISTANCE_NAME: _distance_at,
}


class _Registry(dict[str, Measure]):
    """Measures by name: any number in a name is known, the usual ones are listed."""

    def __missing__(self, name: object) -> Measure:
        for form, make in _FORMS.items():
            if isinstance(name, str) and (match := form.fullmatch(name)):
                return make(*match.groups())[0]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def get(self, name: object, default: Any = None) -> Any:
        try:
            return self[name]  # type: ignore[index]
        except KeyError:
            return default


def numbers(form: re.Pattern[str], names: Iterable[str]) -> list[int]:
    """The numbers in the names of this form, each once."""
    return list(dict.fromkeys(int(match[1]) for match in map(form.fullmatch, names) if match))


# ---- all measures --------------------------------------------------------------------------------

#: What the columns of set sizes are called, behind the name of the kind of set.
SET_SIZES = ("intersection", "true_size", "pred_size")


def _rates_of_sets(kind: str, what: str) -> list[Measure]:
    """Precision, recall and F1 of sizes of class sets or graphs, summed over instances."""
    shared, true, pred = (f"{kind}_{part}" for part in SET_SIZES)
    names = (f"micro_{kind}_{rate}" for rate in ("precision", "recall", "f1"))
    formulas = (
        OfMeans(share_of_sets, (shared, pred, true)),
        OfMeans(share_of_sets, (shared, true, pred)),
        OfMeans(lambda both, a, b: 2 * both / (a + b) if a + b else 1.0, (shared, true, pred)),
    )
    return [
        gain(name, f"{name.removeprefix('micro_')} of {what} sizes summed over instances", formula)
        for name, formula in zip(names, formulas, strict=True)
    ]


_POOLED = partial(OverLabels, pooled=True)
_MATTHEWS = OfClasses(class_matthews, otherwise=0.0)
_KAPPA = OfClasses(kappa, otherwise=NAN)
_MICRO_MGIA = OfMeans(
    lambda error, bound: 1 - error / bound if bound else 1.0, ("mgia_error", "mgia_bound")
)
_WEIGHTED = "mean over classes, weighted by their instances"
_AS_WEIGHTED = "the same, weighted by the instances of each label"
_ROC = "area under the ROC curve"
_PR = "area under the precision-recall curve"
_CELLS = "correlation of truth and prediction"
_ROWS = [
    *_family("example", MADJAROV, _SETS, _EMPTY)(
        loss("hamming_loss", "share of label cells that are wrong", each=hamming),
        gain("accuracy", "mean Jaccard index of true and predicted label sets", each=jaccard),
        gain("precision", "mean share of the predicted labels that are true", each=precision),
        gain("recall", "mean share of the true labels that are predicted", each=recall),
        gain("f1", "mean of 2|Y∩Ŷ| / (|Y|+|Ŷ|) over instances", each=f1),
        gain("subset_accuracy", "share of label sets that are predicted exactly", each=exact),
    ),
    *_family("label", MADJAROV, _SETS, _EMPTY)(
        gain("micro_precision", "precision of tp and fp summed over labels", _POOLED(precision)),
        gain("micro_recall", "recall of tp and fn summed over labels", _POOLED(recall)),
        gain("micro_f1", "F1 of tp, fp and fn summed over labels", _POOLED(f1)),
    ),
    *_family("label", MADJAROV, (LABEL_SETS, ONE_LABEL), f"{_EMPTY}; of one label, {_CLASSES}")(
        gain("macro_precision", "mean of each label's precision", OverLabels(precision)),
        gain("macro_recall", "mean of each label's recall", OverLabels(recall)),
        gain("macro_f1", "mean of each label's F1", OverLabels(f1)),
    ),
    *_family("ranking", MADJAROV, _SETS)(
        loss("one_error", "share of instances whose top-scored label is not relevant"),
        unbounded("coverage", "mean of the worst rank of a relevant label, minus one"),
        loss("ranking_loss", "mean share of (relevant, irrelevant) label pairs in the wrong order"),
        gain("average_precision", "mean over relevant labels of the precision at their rank"),
    ),
    *_family("dependence", HUELLERMEIER, _SETS)(
        loss("soft_hamming_loss", "mean |s−y|: binomial and polynomial loss at parameter 1"),
        loss("soft_subset_loss", "mean over instances of the largest |s−y|: binomial loss at k=K"),
        loss(
            "soft_binomial_area",
            "area under the binomial loss of the scores over (k−1)/(K−1), k=1..K",
            profile("soft", "area"),
        ),
        loss(
            "soft_binomial_slope",
            "soft_subset_loss − soft_hamming_loss: flat where errors fall together",
            OfMeans(lambda most, mean: most - mean, ("soft_subset_loss", "soft_hamming_loss")),
        ),
        loss(
            "binomial_area",
            "area under the binomial loss of the label sets over (k−1)/(K−1), k=1..K",
            profile("hard", "area"),
        ),
        loss(
            "binomial_slope",
            "subset 0/1 loss − Hamming loss: flat where errors fall together",
            OfMeans(lambda equal, wrong: 1 - equal - wrong, ("subset_accuracy", "hamming_loss")),
        ),
        gain(
            "binomial_gain",
            "how far the area lies below the largest that the same Hamming loss allows",
            profile("hard", "relative_gain"),
        ),
    ),
    *_family("one-label", SOKOLOVA, _ONE, "of equal scores the first class is predicted")(
        gain("top1_accuracy", "share of instances whose class is predicted")
    ),
    *_family("one-label", SOKOLOVA, _FLAT, "of label sets, each label is a class", asked=_SETS)(
        gain("weighted_precision", f"precision, {_WEIGHTED}", OverLabels(precision, support)),
        gain("weighted_recall", f"recall, {_WEIGHTED}", OverLabels(recall, support)),
        gain("weighted_f1", f"F1, {_WEIGHTED}", OverLabels(f1, support)),
    ),
    *_family("one-label", "Brodersen et al. 2010", _FLAT, _BALANCED, asked=_SETS)(
        gain("balanced_accuracy", "mean recall of the classes", OverLabels(balanced, occurring))
    ),
    *_family(
        "one-label", "Gorodkin 2004", _ONE, "0 where all true or all predicted classes are one"
    )(gain("matthews", "correlation of true and predicted classes", _MATTHEWS, low=-1)),
    *_family(
        "one-label", "Cohen 1960", _ONE, "absent where all true and all predicted classes are one"
    )(gain("kappa", "agreement of true and predicted classes beyond chance", _KAPPA, low=-1)),
    *_top_k(TOP),
    *_family("probability", "Good 1952", _FLAT, _CLIPPED, asked=_SETS)(
        unbounded("log_loss", "mean of −log of the probability of what is true")
    ),
    *_family("probability", "Brier 1950", _FLAT, _OVER_CLASSES, asked=_SETS)(
        loss("brier_score", "mean squared difference of probability and truth")
    ),
    *_calibration(BINS),
    *_family("curve", "Fawcett 2006", _FLAT, _SECOND, asked=_SETS)(
        gain("macro_auroc", f"mean {_ROC} of a class against the rest", Area("auroc", "macro")),
        gain("weighted_auroc", _AS_WEIGHTED, Area("auroc", "weighted")),
    ),
    *_family("curve", "Fawcett 2006", _SETS, "ties count half", asked=_SETS)(
        gain("micro_auroc", f"{_ROC} of all label cells together", Area("auroc", "micro"))
    ),
    *_family("curve", "Davis & Goadrich 2006", _SETS, _AS_STEPS, asked=_SETS)(
        gain(
            "macro_ap",
            "mean over labels of average precision: the sum of precision × gain in recall",
            Area("ap", "macro"),
        ),
        gain("weighted_ap", _AS_WEIGHTED, Area("ap", "weighted")),
        gain("micro_ap", "average precision of all label cells together", Area("ap", "micro")),
    ),
    *_family("curve", "Vens et al. 2008", _SETS, _CURVED, asked=_SETS)(
        gain("auprc_curve", f"{_PR} of all label cells together", Area("interpolated", "micro")),
        gain("auprc_mean", f"{_PR}, mean over labels", Area("interpolated", "macro")),
        gain("auprc_weighted", _AS_WEIGHTED, Area("interpolated", "weighted")),
    ),
    *_family("further-label", SOKOLOVA, _SETS, _EMPTY, asked=_SETS)(
        gain("macro_jaccard", "mean Jaccard index of each label", OverLabels(jaccard))
    ),
    *_family("further-label", "Gorodkin 2004", _SETS, _ONE_VALUE, asked=_SETS)(
        gain("micro_matthews", f"{_CELLS} over all cells", _POOLED(matthews), low=-1),
        gain("macro_matthews", f"{_CELLS}, mean over labels", OverLabels(matthews), low=-1),
    ),
    *(row for name in _AT_K for k in (1, 3, 5) for row in _at_k(name, k)),
    *_family("hierarchical-set", KOSMOPOULOS, _ALL)(
        gain("h_precision", "precision of the class sets extended by their ancestors"),
        gain("h_recall", "recall of the class sets extended by their ancestors"),
        gain("h_f1", "harmonic mean of h_precision and h_recall of an instance, averaged"),
        unbounded("symmetric_difference_loss", "classes in only one of the two extended sets"),
        unbounded(
            "h_loss",
            "symmetric difference, or class_costs of it, without errors below a wrong class",
        ),
        gain("descendant_precision", "precision of the class sets extended by their descendants"),
        gain("descendant_recall", "recall of the class sets extended by their descendants"),
        gain("descendant_f1", "harmonic mean of the two, averaged"),
        gain("exact_match", "share of instances whose class set is predicted exactly"),
        *_rates_of_sets("h", "set"),
        *_rates_of_sets("descendant", "set"),
    ),
    *_family("hierarchical-pair", KOSMOPOULOS, _ALL)(
        unbounded("tree_induced_error", "path length from the one true to the one predicted class"),
        unbounded("gie", "graph-induced error: least-cost one-to-one pairing of classes"),
        gain("mgia", "multi-label graph-induced accuracy: least-cost edge cover, normalised"),
        gain("micro_mgia", "mgia of errors and bounds summed over instances", _MICRO_MGIA),
        unbounded("all_pairs_error", "sum of path lengths from all true to all predicted classes"),
    ),
    *_family("hierarchical-lca", KOSMOPOULOS, _ALL)(
        gain("lca_precision", "precision of the graphs up to lowest common ancestors"),
        gain("lca_recall", "recall of the same graphs"),
        gain("lca_f1", "harmonic mean of the two, averaged"),
        *_rates_of_sets("lca", "graph"),
    ),
    *_distance_at(TOP),
    *(row for name in ("precision", "recall", "f1") for row in _at_level(2, name)),
    *_family("hierarchical-level", KOSMOPOULOS, _ALL, "of the predicted sets as given", asked=_ALL)(
        loss("violation_rate", "share of predicted sets that lack an ancestor of a class"),
        unbounded("missing_ancestors", "mean number of ancestors that predicted sets lack"),
    ),
    *_family(
        "hierarchical-threshold", "Clark & Radivojac 2013", _SETS, _AT_THRESHOLDS, asked=_SETS
    )(
        gain("f_max", "largest F1 of mean precision and mean recall", over_thresholds("f_max")),
        unbounded(
            "s_min",
            "least distance from neither missing nor wrong information, in bits",
            over_thresholds("s_min"),
        ),
    ),
    *_family("cost", "measured by the caller", _ALL)(
        unbounded("fit_time", "seconds to fit", lambda sums: sums.seconds.get("fit_time", NAN)),
        unbounded(
            "predict_time",
            "seconds to predict",
            lambda sums: sums.seconds.get("predict_time", NAN),
        ),
    ),
]
MEASURES: Mapping[str, Measure] = _Registry({row.name: row for row in _ROWS})


def _of_families(*families: str) -> tuple[str, ...]:
    """The measures of families."""
    return tuple(row.name for row in _ROWS if row.family in families)


#: Named sets that are accepted beside single names of measures.
SETS: Mapping[str, tuple[str, ...]] = {
    "sixteen": _of_families("example", "label", "ranking"),
    "example": _of_families("example"),
    "label": _of_families("label"),
    "ranking": _of_families("ranking"),
    "bipartition": _of_families("example", "label"),
    "dependence": _of_families("dependence"),
    "awareness": ("soft_binomial_slope", "binomial_slope", "binomial_gain"),
    "hierarchical": tuple(
        row.name for row in _ROWS if row.family.startswith("hierarchical") and not row.asked
    ),
    "at_k": tuple(f"{name}_at_{k}" for name in ("precision", "recall", "ndcg") for k in (1, 3, 5)),
    "xmc": tuple(
        f"{name}_at_{k}" for name in ("precision", "ndcg", "psp", "psndcg") for k in (1, 3, 5)
    ),
    "probabilistic": (
        *("log_loss", "brier_score", "ece_15"),
        *("macro_auroc", "weighted_auroc", "micro_auroc", "macro_ap", "weighted_ap", "micro_ap"),
    ),
    "hmc": ("auprc_curve", "auprc_mean", "auprc_weighted", "f_max", "s_min", "violation_rate"),
    "single_label": tuple(
        row.name
        for row in _ROWS
        if ONE_LABEL in row.kinds
        and CLASS_SETS not in row.kinds
        and not row.family.startswith("hierarchical")
    ),
    "cost": _of_families("cost"),
    "one-label": (
        *("top1_accuracy", "balanced_accuracy", "macro_f1"),
        *("matthews", "log_loss", "macro_auroc"),
    ),
    "class-sets": (
        *("h_precision", "h_recall", "h_f1", "lca_f1", "mgia"),
        *("symmetric_difference_loss", "exact_match"),
    ),
}

#: The set by which a kind is ranked where nobody chose; a measure that is new never joins one.
BY_DEFAULT = {LABEL_SETS: "sixteen", ONE_LABEL: "one-label", CLASS_SETS: "class-sets"}


def default_set(names: Iterable[str]) -> str | None:
    """The named set by which to rank runs with these measures; None where none applies."""
    have = set(names)
    if have.issuperset(("h_f1", "symmetric_difference_loss")):
        return BY_DEFAULT[CLASS_SETS]
    counts = {name: len(have.intersection(SETS[name])) for name in BY_DEFAULT.values()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


#: Used only where they are named: what a run costs, and how its errors fall, whatever their number
#: (a prediction that is wrong everywhere has the best slope).
NOT_BY_DEFAULT = frozenset(SETS["cost"] + SETS["awareness"])


def expand(names: Iterable[str]) -> list[str]:
    """Replace the names of sets by their members, in order and without repetition."""
    return list(dict.fromkeys(member for name in names for member in SETS.get(name, (name,))))


def known_measures(
    names: Iterable[str], costs: bool = True, further: Iterable[str] = ()
) -> list[str]:
    """The measures that names and sets stand for; a ValueError suggests what was meant."""
    further = tuple(further)
    others = () if costs else SETS["cost"]
    members = expand(names)
    if wrong := [m for m in members if (m not in MEASURES or m in others) and m not in further]:
        got = some(map(repr, wrong), 8)
        guess = meant(wrong, further)
        sets = ", ".join([*further, *SETS])
        raise ValueError(
            f"`measures` must name measures or sets of them, got {got}.{guess} "
            f"{_there_are(others)}, and the sets {sets}."
        )
    return members


def one_measure(name: str, argument: str) -> str:
    """The name of one measure that is no cost; else a ValueError as of `known_measures`."""
    if name not in MEASURES or name in SETS["cost"]:
        text = f"`{argument}` must name one measure, got {name!r}.{meant([name])}"
        raise ValueError(f"{text} {_there_are(SETS['cost'])}.")
    return name


def _there_are(without: Collection[str]) -> str:
    listed = ", ".join(m for m in MEASURES if m not in without)
    return f"There are the measures {listed} (where a name has a number, with any other, too)"


def meant(wrong: Iterable[str], further: Iterable[str] = ()) -> str:
    """Which measures or sets are near to these names, as a question; empty where none is."""
    return did_you_mean(wrong, [*further, *MEASURES, *SETS])
