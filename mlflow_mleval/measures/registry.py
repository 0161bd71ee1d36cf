"""Every measure the project knows: a row with its name, direction, range, family, source,
definition and formula.

Logging, reading, intervals, rankings and pages go by the rows. What others call their metrics, and
which way these are better, stands in `metric_names`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from mlflow_mleval.measures import formulas as f
from mlflow_mleval.measures.formulas import Counts, OfClasses, OfMeans, OverLabels
from mlflow_mleval.sentences import count, did_you_mean, some
from mlflow_mleval.validation import Array

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
Formula = Callable[[Any], float | tuple[float, float]]

#: What is predicted of an instance: labels, one of several classes, or classes of a hierarchy.
LABEL_SETS = "label sets"
ONE_LABEL = "one label"
CLASS_SETS = "class sets"

MADJAROV = "Madjarov et al. 2012, appendix A"
HUELLERMEIER = "Hüllermeier et al. 2022"
KOSMOPOULOS = "Kosmopoulos et al. 2015"


@dataclass(frozen=True)
class Measure:
    """One measure. Without a formula it is the mean of the column of its name: `each`, or what a
    pass gives; its interval follows from `slopes` or `derivatives` of the formula, or from the
    column.
    """

    name: str  # key in Evaluation.measures and, behind mleval/, of the metric in MLflow
    direction: Direction
    range: tuple[float, float]  # that the definition allows; inf where there is no bound
    summary: str  # the definition in a line
    formula: Formula | None = None
    each: Callable[[Counts], Array] | None = None
    family: str = ""
    source: str = ""  # the publication that defines it
    # of LABEL_SETS, ONE_LABEL, CLASS_SETS: which predictions have it; hierarchical ones with a
    # hierarchy
    kinds: tuple[str, ...] = (LABEL_SETS,)
    convention: str = ""  # what the definition leaves open and is settled here
    asked: tuple[str, ...] = ()  # of the kinds: where it is computed only if it is named

    @property
    def arrow(self) -> str:
        """``↑`` where larger is better, ``↓`` where smaller is."""
        return "↑" if self.direction == "max" else "↓"

    @property
    def sign(self) -> int:
        """What a value is multiplied by so that larger is better."""
        return 1 if self.direction == "max" else -1


def gain(
    name: str,
    summary: str,
    formula: Formula | None = None,
    each: Callable[[Counts], Array] | None = None,
    low: float = 0,
) -> Measure:
    """A measure between `low` and 1, of which 1 is best."""
    return Measure(name, "max", (low, 1), summary, formula, each)


def loss(
    name: str,
    summary: str,
    formula: Formula | None = None,
    each: Callable[[Counts], Array] | None = None,
    high: float = 1,
) -> Measure:
    """A measure from 0, which is best, to `high`."""
    return Measure(name, "min", (0, high), summary, formula, each)


def _family(
    family: str, source: str, kinds: tuple[str, ...], *rows: Measure, **more: Any
) -> list[Measure]:
    """Rows of one family and source."""
    about = {"family": family, "source": source, "kinds": kinds, **more}
    return [replace(row, **about) for row in rows]


_ALL = (LABEL_SETS, ONE_LABEL, CLASS_SETS)
_FLAT = (ONE_LABEL, LABEL_SETS)
_SETS = (LABEL_SETS,)
_ONE = (ONE_LABEL,)
_EMPTY = "two empty sets count 0 (sklearn) or 1 (mulan), one empty set 0"
_CLASSES = (
    "averages are over the classes that are true or predicted somewhere; what is never predicted "
    "has precision 0"
)
_TIES = "of equal scores the lower label comes first; a score of 0 is none, and misses fill up to k"

# ---- measures with a number in their names -------------------------------------------------------

#: Source and definition of measures whose names carry k.
_AT_K = {
    "precision": (
        "Jain et al. 2016",
        "true labels among the {k} with the highest scores, divided by {k}, averaged",
    ),
    "recall": (
        "Jain et al. 2016",
        "true labels among the {k} with the highest scores, divided by all true ones, averaged",
    ),
    "ndcg": (
        "Järvelin & Kekäläinen 2002",
        "discounted gain at {k} as a share of the best possible, averaged",
    ),
    "psp": (
        "Jain et al. 2016",
        "precision at {k}, true labels weighing 1 / propensity, as a share of the best possible",
    ),
    "psndcg": (
        "Jain et al. 2016",
        "nDCG at {k}, true labels weighing 1 / propensity, as a share of the best possible",
    ),
}
#: What the columns of gained and of best possible propensity-scored sums end with.
GAIN = "_gain"
BEST = "_best"


def _at_k(name: str, k: str | int) -> list[Measure]:
    source, text = _AT_K[name]
    full = f"{name}_at_{k}"
    if not name.startswith("ps"):
        row, settled = gain(full, text.format(k=k)), _TIES
    else:
        row = gain(full, text.format(k=k), OfMeans(f.share, (full + GAIN, full + BEST)))
        settled = f"{_TIES}; the best that is possible is summed over instances, too"
    return _family("at-k", source, _SETS, row, convention=settled, asked=_SETS)


def _at_level(level: str | int, name: str) -> list[Measure]:
    text = (
        f"{'F1' if name == 'f1' else name} of set sizes summed over instances, of the classes at "
        f"level {level} alone"
    )
    settled = (
        "sets are extended by ancestors; a class is one level below its lowest parent, roots are "
        "at level 1"
    )
    shared, true, pred = (f"level_{level}_{part}" for part in SET_SIZES)
    formula = {
        "precision": OfMeans(f.share, (shared, pred)),
        "recall": OfMeans(f.share, (shared, true)),
        "f1": OfMeans(lambda both, a, b: f.share(2 * both, a + b), (shared, true, pred)),
    }[name]
    row = gain(f"level_{level}_{name}", text, formula)
    return _family("hierarchical-level", KOSMOPOULOS, _ALL, row, convention=settled, asked=_ALL)


def _top_k(k: str | int) -> list[Measure]:
    text = f"share of instances whose class is among the {k} with the highest scores"
    row = gain(f"top_k_accuracy_{k}", text, f.top_k(int(k)))
    settled = "of equal scores the first class comes first; absent with at most k classes"
    asked = () if int(k) == TOP else _ONE
    return _family("at-k", "Sokolova & Lapalme 2009", _ONE, row, convention=settled, asked=asked)


def _calibration(bins: str | int) -> list[Measure]:
    text = (
        "calibration error of the highest probability, over "
        f"{count(int(bins), 'bin')} of equal numbers"
    )
    row = loss(f"ece_{bins}", text, f.calibration(int(bins)))
    settled = "of label sets over all label cells; equal probabilities stay in one bin"
    asked = _SETS if int(bins) == BINS else _FLAT
    return _family("probability", "Naeini et al. 2015", _FLAT, row, convention=settled, asked=asked)


def _distance_at(k: str | int) -> list[Measure]:
    text = f"mean shortest path between a true class and one of the {k} with the highest scores"
    settled = (
        "paths run through common ancestors; of equal scores the first comes first; of label "
        "sets a score of 0 is none"
    )
    row = loss(f"distance_at_{k}", text, high=INF)
    source = "Deng et al. 2010"
    return _family("hierarchical-pair", source, _FLAT, row, convention=settled, asked=_FLAT)


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
        OfMeans(f.share_of_sets, (shared, pred, true)),
        OfMeans(f.share_of_sets, (shared, true, pred)),
        OfMeans(f.f1_of_sets, (shared, true, pred)),
    )
    return [
        gain(name, f"{name.removeprefix('micro_')} of {what} sizes summed over instances", formula)
        for name, formula in zip(names, formulas, strict=True)
    ]


_POOLED = partial(OverLabels, pooled=True)
_MATTHEWS = OfClasses(f.class_matthews, f.class_matthews_slopes)
_KAPPA = OfClasses(f.kappa, f.kappa_slopes)
_MICRO_MGIA = OfMeans(
    lambda error, bound: 1 - error / bound if bound else 1.0, ("mgia_error", "mgia_bound")
)
_WEIGHTED = "mean over classes, weighted by their instances"
_AS_WEIGHTED = "the same, weighted by the instances of each label"
_ROC = "area under the ROC curve"
_PR = "area under the precision-recall curve"
_CELLS = "correlation of truth and prediction"
_ROWS = [
    *_family(
        "example",
        MADJAROV,
        _SETS,
        loss("hamming_loss", "share of label cells that are wrong", each=f.hamming),
        gain("accuracy", "mean Jaccard index of true and predicted label sets", each=f.jaccard),
        gain("precision", "mean share of the predicted labels that are true", each=f.precision),
        gain("recall", "mean share of the true labels that are predicted", each=f.recall),
        gain("f1", "mean of 2|Y∩Ŷ| / (|Y|+|Ŷ|) over instances", each=f.f1),
        gain("subset_accuracy", "share of label sets that are predicted exactly", each=f.exact),
        convention=_EMPTY,
    ),
    *_family(
        "label",
        MADJAROV,
        _SETS,
        gain("micro_precision", "precision of tp and fp summed over labels", _POOLED(f.precision)),
        gain("micro_recall", "recall of tp and fn summed over labels", _POOLED(f.recall)),
        gain("micro_f1", "F1 of tp, fp and fn summed over labels", _POOLED(f.f1)),
        convention=_EMPTY,
    ),
    *_family(
        "label",
        MADJAROV,
        (LABEL_SETS, ONE_LABEL),
        gain("macro_precision", "mean of each label's precision", OverLabels(f.precision)),
        gain("macro_recall", "mean of each label's recall", OverLabels(f.recall)),
        gain("macro_f1", "mean of each label's F1", OverLabels(f.f1)),
        convention=f"{_EMPTY}; of one label, {_CLASSES}",
    ),
    *_family(
        "ranking",
        MADJAROV,
        _SETS,
        loss("one_error", "share of instances whose top-scored label is not relevant"),
        loss("coverage", "mean of the worst rank of a relevant label, minus one", high=INF),
        loss("ranking_loss", "mean share of (relevant, irrelevant) label pairs in the wrong order"),
        gain("average_precision", "mean over relevant labels of the precision at their rank"),
    ),
    *_family(
        "dependence",
        HUELLERMEIER,
        _SETS,
        loss("soft_hamming_loss", "mean |s−y|: binomial and polynomial loss at parameter 1"),
        loss("soft_subset_loss", "mean over instances of the largest |s−y|: binomial loss at k=K"),
        loss(
            "soft_binomial_area",
            "area under the binomial loss of the scores over (k−1)/(K−1), k=1..K",
            f.profile("soft", "area"),
        ),
        loss(
            "soft_binomial_slope",
            "soft_subset_loss − soft_hamming_loss: flat where errors fall together",
            OfMeans(lambda most, mean: most - mean, ("soft_subset_loss", "soft_hamming_loss")),
        ),
        loss(
            "binomial_area",
            "area under the binomial loss of the label sets over (k−1)/(K−1), k=1..K",
            f.profile("hard", "area"),
        ),
        loss(
            "binomial_slope",
            "subset 0/1 loss − Hamming loss: flat where errors fall together",
            OfMeans(lambda equal, wrong: 1 - equal - wrong, ("subset_accuracy", "hamming_loss")),
        ),
        gain(
            "binomial_gain",
            "how far the area lies below the largest that the same Hamming loss allows",
            f.profile("hard", "relative_gain"),
        ),
    ),
    *_family(
        "one-label",
        "Sokolova & Lapalme 2009",
        _ONE,
        gain("top1_accuracy", "share of instances whose class is predicted"),
        convention="of equal scores the first class is predicted",
    ),
    *_family(
        "one-label",
        "Sokolova & Lapalme 2009",
        _FLAT,
        gain("weighted_precision", f"precision, {_WEIGHTED}", OverLabels(f.precision, f.support)),
        gain("weighted_recall", f"recall, {_WEIGHTED}", OverLabels(f.recall, f.support)),
        gain("weighted_f1", f"F1, {_WEIGHTED}", OverLabels(f.f1, f.support)),
        convention="of label sets, each label is a class",
        asked=_SETS,
    ),
    *_family(
        "one-label",
        "Brodersen et al. 2010",
        _FLAT,
        gain(
            "balanced_accuracy", "mean recall of the classes", OverLabels(f.balanced, f.occurring)
        ),
        convention="not adjusted for chance, of classes that occur; of label sets the mean over "
        "labels, each of two classes",
        asked=_SETS,
    ),
    *_family(
        "one-label",
        "Gorodkin 2004",
        _ONE,
        gain("matthews", "correlation of true and predicted classes", _MATTHEWS, low=-1),
        convention="0 where all true or all predicted classes are one",
    ),
    *_family(
        "one-label",
        "Cohen 1960",
        _ONE,
        gain("kappa", "agreement of true and predicted classes beyond chance", _KAPPA, low=-1),
        convention="absent where all true and all predicted classes are one",
    ),
    *_top_k(TOP),
    *_family(
        "probability",
        "Good 1952",
        _FLAT,
        loss("log_loss", "mean of −log of the probability of what is true", high=INF),
        convention="of label sets the mean over label cells; probabilities are clipped to the "
        "epsilon of their type, as in scikit-learn",
        asked=_SETS,
    ),
    *_family(
        "probability",
        "Brier 1950",
        _FLAT,
        loss("brier_score", "mean squared difference of probability and truth"),
        convention="the mean over classes or labels, too: with more than two classes "
        "scikit-learn's score is C times as large",
        asked=_SETS,
    ),
    *_calibration(BINS),
    *_family(
        "curve",
        "Fawcett 2006",
        _FLAT,
        gain("macro_auroc", f"mean {_ROC} of a class against the rest", f.area("auroc", "macro")),
        gain("weighted_auroc", _AS_WEIGHTED, f.area("auroc", "weighted")),
        convention="of two classes the second; classes or labels without instances, or with all, "
        "are left out; ties count half",
        asked=_SETS,
    ),
    *_family(
        "curve",
        "Fawcett 2006",
        _SETS,
        gain("micro_auroc", f"{_ROC} of all label cells together", f.area("auroc", "micro")),
        convention="ties count half",
        asked=_SETS,
    ),
    *_family(
        "curve",
        "Davis & Goadrich 2006",
        _SETS,
        gain(
            "macro_ap",
            "mean over labels of average precision: the sum of precision × gain in recall",
            f.area("ap", "macro"),
        ),
        gain("weighted_ap", _AS_WEIGHTED, f.area("ap", "weighted")),
        gain("micro_ap", "average precision of all label cells together", f.area("ap", "micro")),
        convention="labels without instances are left out; not interpolated, as in scikit-learn",
        asked=_SETS,
    ),
    *_family(
        "curve",
        "Vens et al. 2008",
        _SETS,
        gain("auprc_curve", f"{_PR} of all label cells together", f.area("interpolated", "micro")),
        gain("auprc_mean", f"{_PR}, mean over labels", f.area("interpolated", "macro")),
        gain("auprc_weighted", _AS_WEIGHTED, f.area("interpolated", "weighted")),
        convention="interpolated as Davis & Goadrich 2006 do; labels without instances are left "
        "out",
        asked=_SETS,
    ),
    *_family(
        "further-label",
        "Sokolova & Lapalme 2009",
        _SETS,
        gain("macro_jaccard", "mean Jaccard index of each label", OverLabels(f.jaccard)),
        convention=_EMPTY,
        asked=_SETS,
    ),
    *_family(
        "further-label",
        "Gorodkin 2004",
        _SETS,
        gain("micro_matthews", f"{_CELLS} over all cells", _POOLED(f.matthews), low=-1),
        gain("macro_matthews", f"{_CELLS}, mean over labels", OverLabels(f.matthews), low=-1),
        convention="0 where truth or prediction is all one value",
        asked=_SETS,
    ),
    *(row for name in _AT_K for k in (1, 3, 5) for row in _at_k(name, k)),
    *_family(
        "hierarchical-set",
        KOSMOPOULOS,
        _ALL,
        gain("h_precision", "precision of the class sets extended by their ancestors"),
        gain("h_recall", "recall of the class sets extended by their ancestors"),
        gain("h_f1", "harmonic mean of h_precision and h_recall of an instance, averaged"),
        loss("symmetric_difference_loss", "classes in only one of the two extended sets", high=INF),
        loss(
            "h_loss",
            "symmetric difference, or class_costs of it, without errors below a wrong class",
            high=INF,
        ),
        gain("descendant_precision", "precision of the class sets extended by their descendants"),
        gain("descendant_recall", "recall of the class sets extended by their descendants"),
        gain("descendant_f1", "harmonic mean of the two, averaged"),
        gain("exact_match", "share of instances whose class set is predicted exactly"),
        *_rates_of_sets("h", "set"),
        *_rates_of_sets("descendant", "set"),
    ),
    *_family(
        "hierarchical-pair",
        KOSMOPOULOS,
        _ALL,
        loss(
            "tree_induced_error",
            "path length from the one true to the one predicted class",
            high=INF,
        ),
        loss("gie", "graph-induced error: least-cost one-to-one pairing of classes", high=INF),
        gain("mgia", "multi-label graph-induced accuracy: least-cost edge cover, normalised"),
        gain("micro_mgia", "mgia of errors and bounds summed over instances", _MICRO_MGIA),
        loss(
            "all_pairs_error",
            "sum of path lengths from all true to all predicted classes",
            high=INF,
        ),
    ),
    *_family(
        "hierarchical-lca",
        KOSMOPOULOS,
        _ALL,
        gain("lca_precision", "precision of the graphs up to lowest common ancestors"),
        gain("lca_recall", "recall of the same graphs"),
        gain("lca_f1", "harmonic mean of the two, averaged"),
        *_rates_of_sets("lca", "graph"),
    ),
    *_distance_at(TOP),
    *(row for name in ("precision", "recall", "f1") for row in _at_level(2, name)),
    *_family(
        "hierarchical-level",
        KOSMOPOULOS,
        _ALL,
        loss("violation_rate", "share of predicted sets that lack an ancestor of a class"),
        loss("missing_ancestors", "mean number of ancestors that predicted sets lack", high=INF),
        convention="of the predicted sets as given",
        asked=_ALL,
    ),
    *_family(
        "hierarchical-threshold",
        "Clark & Radivojac 2013",
        _SETS,
        gain("f_max", "largest F1 of mean precision and mean recall", f.over_thresholds("f_max")),
        loss(
            "s_min",
            "least distance from neither missing nor wrong information, in bits",
            f.over_thresholds("s_min"),
            high=INF,
        ),
        convention="at any threshold; a class has the highest score of its own and of the classes "
        "below it, and roots count; precision is the mean over instances with a predicted class, "
        "recall over those with a true one; a score of 0 predicts nothing; a class is worth −log2 "
        "of its share of the training instances that have all its parents, of which one has it at "
        "least",
        asked=_SETS,
    ),
    *_family(
        "cost",
        "measured by the caller",
        _ALL,
        loss("fit_time", "seconds to fit", f.seconds("fit_time"), high=INF),
        loss("predict_time", "seconds to predict", f.seconds("predict_time"), high=INF),
    ),
]
MEASURES: Mapping[str, Measure] = _Registry({row.name: row for row in _ROWS})


def _of_families(*families: str) -> tuple[str, ...]:
    """The measures of families."""
    return tuple(row.name for row in _ROWS if row.family in families)


def _at_each_k(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_at_{k}" for name in names for k in (1, 3, 5))


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
    "at_k": _at_each_k("precision", "recall", "ndcg"),
    "xmc": _at_each_k("precision", "ndcg", "psp", "psndcg"),
    "probabilistic": (
        "log_loss",
        "brier_score",
        "ece_15",
        "macro_auroc",
        "weighted_auroc",
        "micro_auroc",
        "macro_ap",
        "weighted_ap",
        "micro_ap",
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
        "top1_accuracy",
        "balanced_accuracy",
        "macro_f1",
        "matthews",
        "log_loss",
        "macro_auroc",
    ),
    "class-sets": (
        "h_precision",
        "h_recall",
        "h_f1",
        "lca_f1",
        "mgia",
        "symmetric_difference_loss",
        "exact_match",
    ),
}

#: The set by which a kind is ranked where nobody chose; a measure that is new never joins one.
BY_DEFAULT: Mapping[str, str] = {
    LABEL_SETS: "sixteen",
    ONE_LABEL: "one-label",
    CLASS_SETS: "class-sets",
}


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
    wrong = [str(name) for name in wrong]
    names = [*further, *MEASURES, *SETS]
    for number in dict.fromkeys(re.findall("[0-9]+", " ".join(wrong))):
        names += (m for m in (re.sub("[0-9]+", number, m) for m in MEASURES) if m in MEASURES)
    return did_you_mean(wrong, names)
