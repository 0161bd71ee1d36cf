"""Every measure the project knows: its name, direction, range, family and source.

The registry drives documentation, the command line and the tests. What others call their metrics,
and which way these are better, stands in `metric_names`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlflow_mleval.words import count, did_you_mean, some

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

#: What is predicted of an instance: a set of labels, one label of several classes, or a set of
#: classes of a hierarchy.
LABEL_SETS = "label sets"
ONE_LABEL = "one label"
CLASS_SETS = "class sets"

MADJAROV = "Madjarov et al. 2012, appendix A"
HUELLERMEIER = "Hüllermeier et al. 2022"
KOSMOPOULOS = "Kosmopoulos et al. 2015"


@dataclass(frozen=True)
class Measure:
    """One measure: what it is called, which way is better, and where it is defined."""

    name: str  # key in Evaluation.measures and, behind mleval/, of the metric in MLflow
    direction: Direction
    range: tuple[float, float]  # that the definition allows; inf where there is no bound
    family: str
    source: str  # the publication that defines it
    summary: str  # the definition in a line
    kinds: tuple[
        str, ...
        # of LABEL_SETS, ONE_LABEL, CLASS_SETS: which predictions have it; hierarchical ones with a
        # hierarchy
    ]
    convention: str = ""  # what the definition leaves open and is settled here
    asked: tuple[str, ...] = ()  # of the kinds: where it is computed only if it is named

    @property
    def arrow(self) -> str:
        """``↑`` where larger is better, ``↓`` where smaller is."""
        return "↑" if self.direction == "max" else "↓"


def _measures(
    family: str,
    source: str,
    rows: Iterable[tuple[str, Direction, float, float, str]],
    kinds: tuple[str, ...] = (LABEL_SETS,),
    convention: str = "",
    asked: tuple[str, ...] = (),
) -> list[Measure]:
    rest = kinds, convention, asked
    return [
        Measure(name, way, (low, high), family, source, text, *rest)
        for name, way, low, high, text in rows
    ]


_ALL = (LABEL_SETS, ONE_LABEL, CLASS_SETS)
_FLAT = (ONE_LABEL, LABEL_SETS)
_EMPTY = "two empty sets count 0 (sklearn) or 1 (mulan), one empty set 0"
_CLASSES = (
    "averages are over the classes that are true or predicted somewhere; what is never predicted "
    "has precision 0"
)

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


def _at_k(name: str, k: int) -> Measure:
    source, text = _AT_K[name]
    settled = (
        "of equal scores the lower label comes first; a score of 0 is none, and misses fill up to k"
    )
    settled += "; the best that is possible is summed over instances, too" * name.startswith("ps")
    return Measure(
        f"{name}_at_{k}",
        "max",
        (0, 1),
        "at-k",
        source,
        text.format(k=k),
        (LABEL_SETS,),
        settled,
        (LABEL_SETS,),
    )


def _at_level(name: str, level: int) -> Measure:
    text = (
        f"{'F1' if name == 'f1' else name} of set sizes summed over instances, of the classes at "
        f"level {level} alone"
    )
    settled = (
        "sets are extended by ancestors; a class is one level below its lowest parent, roots are "
        "at level 1"
    )
    return Measure(
        f"level_{level}_{name}",
        "max",
        (0, 1),
        "hierarchical-level",
        KOSMOPOULOS,
        text,
        _ALL,
        settled,
        _ALL,
    )


def _top_k(k: int) -> Measure:
    text = f"share of instances whose class is among the {k} with the highest scores"
    settled = (
        "of equal scores the first class comes first; absent with as many classes as k or fewer"
    )
    return Measure(
        f"top_k_accuracy_{k}",
        "max",
        (0, 1),
        "at-k",
        "Sokolova & Lapalme 2009",
        text,
        (ONE_LABEL,),
        settled,
        () if k == TOP else (ONE_LABEL,),
    )


def _calibration(bins: int) -> Measure:
    text = (
        f"calibration error of the highest probability, over {count(bins, 'bin')} of equal numbers"
    )
    settled = "of label sets over all label cells; equal probabilities stay in one bin"
    return Measure(
        f"ece_{bins}",
        "min",
        (0, 1),
        "probability",
        "Naeini et al. 2015",
        text,
        _FLAT,
        settled,
        (LABEL_SETS,) if bins == BINS else _FLAT,
    )


def _distance_at(k: int) -> Measure:
    text = f"mean shortest path between a true class and one of the {k} with the highest scores"
    settled = (
        "paths run through common ancestors; of equal scores the first comes first; of label "
        "sets a score of 0 is none"
    )
    return Measure(
        f"distance_at_{k}",
        "min",
        (0, INF),
        "hierarchical-pair",
        "Deng et al. 2010",
        text,
        _FLAT,
        settled,
        _FLAT,
    )


#: Measures by the form of their names, and what makes them of the groups of the form.
_FORMS: Mapping[re.Pattern[str], Callable[..., Measure]] = {
    AT_K_NAME: lambda name, k: _at_k(name, int(k)),
    LEVEL_NAME: lambda level, name: _at_level(name, int(level)),
    TOP_NAME: lambda k: _top_k(int(k)),
    ECE_NAME: lambda bins: _calibration(int(bins)),
    DISTANCE_NAME: lambda k: _distance_at(int(k)),
}


class _Registry(dict[str, Measure]):
    """Measures by name; those with any number in their name are known, and the usual ones
    listed.
    """

    def __missing__(self, name: object) -> Measure:
        for form, make in _FORMS.items():
            if isinstance(name, str) and (match := form.fullmatch(name)):
                return make(*match.groups())
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def get(self, name: object, default: Any = None) -> Any:
        try:
            return self[name]  # type: ignore[index]
        except KeyError:
            return default


def numbers(form: re.Pattern[str], names: Iterable[str]) -> list[int]:
    """The numbers in the names of this form, each once.

    >>> numbers(ECE_NAME, ["ece_15", "f1", "ece_10", "ece_15"])
    [15, 10]
    """
    return list(dict.fromkeys(int(match[1]) for match in map(form.fullmatch, names) if match))


MEASURES: Mapping[str, Measure] = _Registry(
    {
        m.name: m
        for m in [
            *_measures(
                "example",
                MADJAROV,
                [
                    ("hamming_loss", "min", 0, 1, "share of label cells that are wrong"),
                    (
                        "accuracy",
                        "max",
                        0,
                        1,
                        "mean Jaccard index of true and predicted label sets",
                    ),
                    ("precision", "max", 0, 1, "mean share of the predicted labels that are true"),
                    ("recall", "max", 0, 1, "mean share of the true labels that are predicted"),
                    ("f1", "max", 0, 1, "mean of 2|Y∩Ŷ| / (|Y|+|Ŷ|) over instances"),
                    (
                        "subset_accuracy",
                        "max",
                        0,
                        1,
                        "share of instances whose label set is predicted exactly",
                    ),
                ],
                convention=_EMPTY,
            ),
            *_measures(
                "label",
                MADJAROV,
                [
                    ("micro_precision", "max", 0, 1, "precision of tp and fp summed over labels"),
                    ("micro_recall", "max", 0, 1, "recall of tp and fn summed over labels"),
                    ("micro_f1", "max", 0, 1, "F1 of tp, fp and fn summed over labels"),
                ],
                convention=_EMPTY,
            ),
            *_measures(
                "label",
                MADJAROV,
                [
                    ("macro_precision", "max", 0, 1, "mean over labels of each label's precision"),
                    ("macro_recall", "max", 0, 1, "mean over labels of each label's recall"),
                    ("macro_f1", "max", 0, 1, "mean over labels of each label's F1"),
                ],
                (LABEL_SETS, ONE_LABEL),
                f"{_EMPTY}; of one label, {_CLASSES}",
            ),
            *_measures(
                "ranking",
                MADJAROV,
                [
                    (
                        "one_error",
                        "min",
                        0,
                        1,
                        "share of instances whose top-scored label is not relevant",
                    ),
                    (
                        "coverage",
                        "min",
                        0,
                        INF,
                        "mean of the worst rank of a relevant label, minus one",
                    ),
                    (
                        "ranking_loss",
                        "min",
                        0,
                        1,
                        "mean share of (relevant, irrelevant) label pairs in the wrong order",
                    ),
                    (
                        "average_precision",
                        "max",
                        0,
                        1,
                        "mean over relevant labels of the precision at their rank",
                    ),
                ],
            ),
            *_measures(
                "dependence",
                HUELLERMEIER,
                [
                    (
                        "soft_hamming_loss",
                        "min",
                        0,
                        1,
                        "mean |s−y| over label cells: binomial and polynomial loss at parameter 1",
                    ),
                    (
                        "soft_subset_loss",
                        "min",
                        0,
                        1,
                        "mean over instances of the largest |s−y|: binomial loss at k=K",
                    ),
                    (
                        "soft_binomial_area",
                        "min",
                        0,
                        1,
                        "area under the binomial loss of the scores over (k−1)/(K−1), k=1..K",
                    ),
                    (
                        "soft_binomial_slope",
                        "min",
                        0,
                        1,
                        "soft_subset_loss − soft_hamming_loss: flat where errors fall together",
                    ),
                    (
                        "binomial_area",
                        "min",
                        0,
                        1,
                        "area under the binomial loss of the label sets over (k−1)/(K−1), k=1..K",
                    ),
                    (
                        "binomial_slope",
                        "min",
                        0,
                        1,
                        "subset 0/1 loss − Hamming loss: flat where errors fall together",
                    ),
                    (
                        "binomial_gain",
                        "max",
                        0,
                        1,
                        "how far the area lies below the largest that the same Hamming loss allows",
                    ),
                ],
            ),
            *_measures(
                "one-label",
                "Sokolova & Lapalme 2009",
                [
                    ("top1_accuracy", "max", 0, 1, "share of instances whose class is predicted"),
                ],
                (ONE_LABEL,),
                "of equal scores the first class is predicted",
            ),
            *_measures(
                "one-label",
                "Sokolova & Lapalme 2009",
                [
                    (
                        "weighted_precision",
                        "max",
                        0,
                        1,
                        "mean over classes of each class's precision, weighted by its instances",
                    ),
                    (
                        "weighted_recall",
                        "max",
                        0,
                        1,
                        "mean over classes of each class's recall, weighted by its instances",
                    ),
                    (
                        "weighted_f1",
                        "max",
                        0,
                        1,
                        "mean over classes of each class's F1, weighted by its instances",
                    ),
                ],
                _FLAT,
                "of label sets, each label is a class",
                (LABEL_SETS,),
            ),
            *_measures(
                "one-label",
                "Brodersen et al. 2010",
                [
                    (
                        "balanced_accuracy",
                        "max",
                        0,
                        1,
                        "mean over the classes that occur of each class's recall",
                    ),
                ],
                _FLAT,
                "not adjusted for chance; of label sets the mean over labels, each of two classes",
                (LABEL_SETS,),
            ),
            *_measures(
                "one-label",
                "Gorodkin 2004",
                [
                    ("matthews", "max", -1, 1, "correlation of true and predicted classes"),
                ],
                (ONE_LABEL,),
                "0 where all true or all predicted classes are one",
            ),
            *_measures(
                "one-label",
                "Cohen 1960",
                [
                    (
                        "kappa",
                        "max",
                        -1,
                        1,
                        "agreement of true and predicted classes beyond chance",
                    ),
                ],
                (ONE_LABEL,),
                "absent where all true and all predicted classes are one",
            ),
            _top_k(TOP),
            *_measures(
                "probability",
                "Good 1952",
                [
                    (
                        "log_loss",
                        "min",
                        0,
                        INF,
                        "mean of −log of the probability of the truth, of one label of the true "
                        "class",
                    ),
                ],
                _FLAT,
                "of label sets the mean over label cells; probabilities are clipped to the "
                "epsilon of their type, as in scikit-learn",
                (LABEL_SETS,),
            ),
            *_measures(
                "probability",
                "Brier 1950",
                [
                    (
                        "brier_score",
                        "min",
                        0,
                        1,
                        "mean squared difference of probability and truth",
                    ),
                ],
                _FLAT,
                "the mean over classes or labels, too: with more than two classes scikit-learn's "
                "score is C times as large",
                (LABEL_SETS,),
            ),
            _calibration(BINS),
            *_measures(
                "curve",
                "Fawcett 2006",
                [
                    (
                        "macro_auroc",
                        "max",
                        0,
                        1,
                        "mean over classes of the area under the ROC curve of one class against "
                        "the rest",
                    ),
                    (
                        "weighted_auroc",
                        "max",
                        0,
                        1,
                        "the same, weighted by the instances of each class",
                    ),
                ],
                _FLAT,
                "of two classes the second; classes or labels without instances, or with all, "
                "are left out; ties count half",
                (LABEL_SETS,),
            ),
            *_measures(
                "curve",
                "Fawcett 2006",
                [
                    (
                        "micro_auroc",
                        "max",
                        0,
                        1,
                        "area under the ROC curve of all label cells together",
                    ),
                ],
                (LABEL_SETS,),
                "ties count half",
                (LABEL_SETS,),
            ),
            *_measures(
                "curve",
                "Davis & Goadrich 2006",
                [
                    (
                        "macro_ap",
                        "max",
                        0,
                        1,
                        "mean over labels of average precision: the sum of precision × gain in "
                        "recall",
                    ),
                    (
                        "weighted_ap",
                        "max",
                        0,
                        1,
                        "the same, weighted by the instances of each label",
                    ),
                    ("micro_ap", "max", 0, 1, "average precision of all label cells together"),
                ],
                (LABEL_SETS,),
                "labels without instances are left out; not interpolated, as in scikit-learn",
                (LABEL_SETS,),
            ),
            *_measures(
                "curve",
                "Vens et al. 2008",
                [
                    (
                        "auprc_curve",
                        "max",
                        0,
                        1,
                        "area under the precision-recall curve of all label cells together",
                    ),
                    (
                        "auprc_mean",
                        "max",
                        0,
                        1,
                        "mean over labels of the area under their precision-recall curves",
                    ),
                    (
                        "auprc_weighted",
                        "max",
                        0,
                        1,
                        "the same, weighted by the instances of each label",
                    ),
                ],
                (LABEL_SETS,),
                "interpolated as Davis & Goadrich 2006 do; labels without instances are left out",
                (LABEL_SETS,),
            ),
            *_measures(
                "further-label",
                "Sokolova & Lapalme 2009",
                [
                    (
                        "macro_jaccard",
                        "max",
                        0,
                        1,
                        "mean over labels of the Jaccard index of true and predicted instances",
                    ),
                ],
                (LABEL_SETS,),
                _EMPTY,
                (LABEL_SETS,),
            ),
            *_measures(
                "further-label",
                "Gorodkin 2004",
                [
                    (
                        "micro_matthews",
                        "max",
                        -1,
                        1,
                        "correlation of truth and prediction over all label cells",
                    ),
                    (
                        "macro_matthews",
                        "max",
                        -1,
                        1,
                        "mean over labels of the correlation of truth and prediction",
                    ),
                ],
                (LABEL_SETS,),
                "0 where truth or prediction is all one value",
                (LABEL_SETS,),
            ),
            *(_at_k(name, k) for name in _AT_K for k in (1, 3, 5)),
            *_measures(
                "hierarchical-set",
                KOSMOPOULOS,
                [
                    (
                        "h_precision",
                        "max",
                        0,
                        1,
                        "precision of the class sets extended by their ancestors",
                    ),
                    (
                        "h_recall",
                        "max",
                        0,
                        1,
                        "recall of the class sets extended by their ancestors",
                    ),
                    (
                        "h_f1",
                        "max",
                        0,
                        1,
                        "harmonic mean of h_precision and h_recall of an instance, averaged",
                    ),
                    (
                        "symmetric_difference_loss",
                        "min",
                        0,
                        INF,
                        "classes in only one of the two extended sets",
                    ),
                    (
                        "h_loss",
                        "min",
                        0,
                        INF,
                        "symmetric difference, or class_costs of it, without errors below a "
                        "wrong class",
                    ),
                    (
                        "descendant_precision",
                        "max",
                        0,
                        1,
                        "precision of the class sets extended by their descendants",
                    ),
                    (
                        "descendant_recall",
                        "max",
                        0,
                        1,
                        "recall of the class sets extended by their descendants",
                    ),
                    ("descendant_f1", "max", 0, 1, "harmonic mean of the two, averaged"),
                    (
                        "exact_match",
                        "max",
                        0,
                        1,
                        "share of instances whose class set is predicted exactly",
                    ),
                    (
                        "micro_h_precision",
                        "max",
                        0,
                        1,
                        "h_precision of set sizes summed over instances",
                    ),
                    ("micro_h_recall", "max", 0, 1, "h_recall of set sizes summed over instances"),
                    ("micro_h_f1", "max", 0, 1, "h_f1 of set sizes summed over instances"),
                    (
                        "micro_descendant_precision",
                        "max",
                        0,
                        1,
                        "descendant_precision of set sizes summed over instances",
                    ),
                    (
                        "micro_descendant_recall",
                        "max",
                        0,
                        1,
                        "descendant_recall of set sizes summed over instances",
                    ),
                    (
                        "micro_descendant_f1",
                        "max",
                        0,
                        1,
                        "descendant_f1 of set sizes summed over instances",
                    ),
                ],
                _ALL,
            ),
            *_measures(
                "hierarchical-pair",
                KOSMOPOULOS,
                [
                    (
                        "tree_induced_error",
                        "min",
                        0,
                        INF,
                        "path length between the true and the predicted class (single label)",
                    ),
                    (
                        "gie",
                        "min",
                        0,
                        INF,
                        "graph-induced error: least-cost one-to-one pairing of classes",
                    ),
                    (
                        "mgia",
                        "max",
                        0,
                        1,
                        "multi-label graph-induced accuracy: least-cost edge cover, normalised",
                    ),
                    (
                        "micro_mgia",
                        "max",
                        0,
                        1,
                        "mgia of errors and of their bounds summed over instances",
                    ),
                    (
                        "all_pairs_error",
                        "min",
                        0,
                        INF,
                        "sum of the path lengths between every true and every predicted class",
                    ),
                ],
                _ALL,
            ),
            *_measures(
                "hierarchical-lca",
                KOSMOPOULOS,
                [
                    (
                        "lca_precision",
                        "max",
                        0,
                        1,
                        "precision of the graphs that join classes to their lowest common "
                        "ancestors",
                    ),
                    ("lca_recall", "max", 0, 1, "recall of the same graphs"),
                    ("lca_f1", "max", 0, 1, "harmonic mean of the two, averaged"),
                    (
                        "micro_lca_precision",
                        "max",
                        0,
                        1,
                        "lca_precision of graph sizes summed over instances",
                    ),
                    (
                        "micro_lca_recall",
                        "max",
                        0,
                        1,
                        "lca_recall of graph sizes summed over instances",
                    ),
                    ("micro_lca_f1", "max", 0, 1, "lca_f1 of graph sizes summed over instances"),
                ],
                _ALL,
            ),
            _distance_at(TOP),
            *(_at_level(name, 2) for name in ("precision", "recall", "f1")),
            *_measures(
                "hierarchical-level",
                KOSMOPOULOS,
                [
                    (
                        "violation_rate",
                        "min",
                        0,
                        1,
                        "share of instances whose predicted set lacks an ancestor of one of its "
                        "classes",
                    ),
                    (
                        "missing_ancestors",
                        "min",
                        0,
                        INF,
                        "mean number of ancestors that predicted sets lack",
                    ),
                ],
                _ALL,
                "of the predicted sets as given",
                _ALL,
            ),
            *_measures(
                "hierarchical-threshold",
                "Clark & Radivojac 2013",
                [
                    (
                        "f_max",
                        "max",
                        0,
                        1,
                        "largest harmonic mean of mean precision and mean recall at any "
                        "threshold on scores",
                    ),
                    (
                        "s_min",
                        "min",
                        0,
                        INF,
                        "least distance from neither missing nor wrong information, in bits, at "
                        "any threshold",
                    ),
                ],
                (LABEL_SETS,),
                "a class has the highest score of its own and of the classes below it, and roots "
                "count; precision is the mean over instances with a predicted class, recall over "
                "those with a true one; a score of 0 predicts nothing; a class is worth −log2 of "
                "its share of the training instances that have all its parents, of which one has "
                "it at least",
                (LABEL_SETS,),
            ),
            *_measures(
                "cost",
                "measured by the caller",
                [
                    ("fit_time", "min", 0, INF, "seconds to fit"),
                    ("predict_time", "min", 0, INF, "seconds to predict"),
                ],
                _ALL,
            ),
        ]
    }
)

#: Named sets that are accepted beside single names of measures.
SETS: Mapping[str, tuple[str, ...]] = {
    "sixteen": tuple(
        m.name for m in MEASURES.values() if m.family in ("example", "label", "ranking")
    ),
    "example": tuple(m.name for m in MEASURES.values() if m.family == "example"),
    "label": tuple(m.name for m in MEASURES.values() if m.family == "label"),
    "ranking": tuple(m.name for m in MEASURES.values() if m.family == "ranking"),
    "bipartition": tuple(m.name for m in MEASURES.values() if m.family in ("example", "label")),
    "dependence": tuple(m.name for m in MEASURES.values() if m.family == "dependence"),
    "awareness": ("soft_binomial_slope", "binomial_slope", "binomial_gain"),
    "hierarchical": tuple(
        m.name for m in MEASURES.values() if m.family.startswith("hierarchical") and not m.asked
    ),
    "at_k": tuple(f"{name}_at_{k}" for name in ("precision", "recall", "ndcg") for k in (1, 3, 5)),
    "xmc": tuple(
        f"{name}_at_{k}" for name in ("precision", "ndcg", "psp", "psndcg") for k in (1, 3, 5)
    ),
    "probabilistic": (
        "log_loss",
        "brier_score",
        "ece_15",
        *(
            f"{average}_{area}"
            for area in ("auroc", "ap")
            for average in ("macro", "weighted", "micro")
        ),
    ),
    "hmc": ("auprc_curve", "auprc_mean", "auprc_weighted", "f_max", "s_min", "violation_rate"),
    "single_label": tuple(
        m.name
        for m in MEASURES.values()
        if ONE_LABEL in m.kinds
        and CLASS_SETS not in m.kinds
        and not m.family.startswith("hierarchical")
    ),
    "cost": tuple(m.name for m in MEASURES.values() if m.family == "cost"),
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

#: The named set by which predictions of a kind are ranked where nobody chose. A measure that is new
#: here never joins one.
BY_DEFAULT: Mapping[str, str] = {
    LABEL_SETS: "sixteen",
    ONE_LABEL: "one-label",
    CLASS_SETS: "class-sets",
}


def default_set(names: Iterable[str]) -> str | None:
    """The named set by which to rank runs that have these measures in common; None where none
    applies.

    Runs with a hierarchy are ranked by its measures, others by the set of which they have the most.

    >>> default_set(["f1", "hamming_loss", "log_loss"]), default_set(["log_loss", "fit_time"]), default_set(["fit_time"])
    ('sixteen', 'one-label', None)
    """  # noqa: E501
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
    """Replace the names of sets by their members, in order and without repetition.

    >>> expand(["ranking", "f1", "coverage"])
    ['one_error', 'coverage', 'ranking_loss', 'average_precision', 'f1']
    """
    return list(dict.fromkeys(member for name in names for member in SETS.get(name, (name,))))


def known_measures(
    names: Iterable[str],
    costs: bool = True,
    further: Iterable[str] = (),
) -> list[str]:
    """The measures that names and sets stand for, `further` names as they are; costs only if
    wanted.

    A ValueError suggests what may be meant by one that is not known, and lists what there is.
    """
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
    """Which measures or sets are near to these names, as a question; empty where none is.

    >>> meant(["ndgc_at_20"])
    " Did you mean 'ndcg_at_20'?"
    """
    wrong = [str(name) for name in wrong]
    names = [*further, *MEASURES, *SETS]
    for number in {number for name in wrong for number in re.findall("[0-9]+", name)}:
        names += (m for m in (re.sub("[0-9]+", number, m) for m in MEASURES) if m in MEASURES)
    return did_you_mean(wrong, names)
