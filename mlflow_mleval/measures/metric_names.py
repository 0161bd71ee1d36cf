"""What metrics are called, by other libraries, too: which way they are better, and on which data
they were measured. A name that no documentation has gets a proposal at most, to be confirmed."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mlflow_mleval.measures.registry import MEASURES, Direction, meant
from mlflow_mleval.sentences import DECLARE, Message, grouped

#: On which data a metric was measured, the most telling first.
HELD_OUT = "held-out"
VALIDATION = "validation"
TRAINING = "training"
#: The doubt that leads all others begins with this.
TRAINING_DOUBT = "Training data"


@dataclass(frozen=True)
class Term:
    """A metric as a library, or MLflow's autologging of it, names it."""

    measure: str  # in the library's own word: accuracy_score, logloss
    direction: Direction
    data: str  # HELD_OUT, VALIDATION or TRAINING
    variable: str = ""  # of the script, where MLflow names the metric after it: X_test
    call: int = 1  # which call on this variable it was


SKLEARN = ("scikit-learn", "https://scikit-learn.org/stable/api/sklearn.metrics.html")
#: By library and documentation: terms of which larger values are better, and smaller ones.
LIBRARY_TERMS: Mapping[tuple[str, str], tuple[str, str]] = {
    SKLEARN: (
        "score accuracy_score average_precision_score balanced_accuracy_score cohen_kappa_score "
        "d2_absolute_error_score d2_brier_score d2_log_loss_score d2_pinball_score "
        "d2_tweedie_score dcg_score explained_variance_score f1_score fbeta_score jaccard_score "
        "label_ranking_average_precision_score matthews_corrcoef ndcg_score precision_score "
        "r2_score recall_score roc_auc_score top_k_accuracy_score adjusted_mutual_info_score "
        "adjusted_rand_score calinski_harabasz_score completeness_score fowlkes_mallows_score "
        "homogeneity_score normalized_mutual_info_score rand_score silhouette_score "
        "v_measure_score",
        "brier_score_loss hamming_loss hinge_loss log_loss zero_one_loss coverage_error "
        "label_ranking_loss max_error mean_absolute_error mean_absolute_percentage_error "
        "mean_gamma_deviance mean_pinball_loss mean_poisson_deviance mean_squared_error "
        "mean_squared_log_error mean_tweedie_deviance median_absolute_error "
        "root_mean_squared_error root_mean_squared_log_error davies_bouldin_score",
    ),
    ("XGBoost", "https://xgboost.readthedocs.io/en/stable/parameter.html"): (
        "auc aucpr pre ndcg map interval-regression-accuracy",
        "rmse rmsle mae mape mphe logloss error merror mlogloss poisson-nloglik gamma-nloglik "
        "cox-nloglik gamma-deviance tweedie-nloglik aft-nloglik quantile expectile",
    ),
    ("LightGBM", "https://lightgbm.readthedocs.io/en/stable/Parameters.html#metric-parameters"): (
        "auc average_precision auc_mu ndcg map r2",
        "l1 l2 rmse quantile mape huber fair poisson gamma gamma_deviance tweedie "
        "binary_logloss binary_error multi_logloss multi_error cross_entropy "
        "cross_entropy_lambda kullback_leibler",
    ),
    ("CatBoost", "https://catboost.ai/docs/en/references/custom-metric__supported-metrics"): (
        "AUC Accuracy BalancedAccuracy F1 Kappa MAP MCC NDCG Precision R2 Recall TotalF1",
        "BrierScore CrossEntropy Logloss MAE MAPE MultiClass Poisson Quantile RMSE ZeroOneLoss",
    ),
    ("Keras", "https://keras.io/api/metrics/"): (
        "accuracy binary_accuracy categorical_accuracy sparse_categorical_accuracy "
        "top_k_categorical_accuracy sparse_top_k_categorical_accuracy auc precision recall "
        "f1_score fbeta_score binary_io_u io_u mean_io_u one_hot_io_u one_hot_mean_io_u "
        "cosine_similarity r2_score",
        "loss mean_squared_error mse root_mean_squared_error mean_absolute_error mae "
        "mean_absolute_percentage_error mape mean_squared_logarithmic_error msle log_cosh_error "
        "binary_crossentropy categorical_crossentropy sparse_categorical_crossentropy "
        "kl_divergence poisson hinge squared_hinge categorical_hinge",
    ),
    ("Transformers and Evaluate", "https://huggingface.co/docs/evaluate/index"): (
        "accuracy f1 precision recall matthews_correlation roc_auc exact_match bleu sacrebleu "
        "meteor rouge1 rouge2 rougeL rougeLsum pearson pearsonr spearmanr mean_iou chrf "
        "bertscore_f1",
        "loss perplexity wer cer ter mse mae",
    ),
    ("MLflow", "https://mlflow.org/docs/latest/ml/evaluation/"): (
        "accuracy_score f1_score precision_score recall_score roc_auc precision_recall_auc "
        "r2_score",
        "log_loss mean_absolute_error mean_squared_error root_mean_squared_error max_error "
        "mean_absolute_percentage_error",
    ),
}
_WAYS: tuple[Direction, Direction] = ("max", "min")
_DIRECTIONS: dict[str, Direction] = {
    name: way
    for terms in LIBRARY_TERMS.values()
    for way, names in zip(_WAYS, map(str.split, terms), strict=True)
    for name in names
}
_FUNCTIONS = sorted(" ".join(LIBRARY_TERMS[SKLEARN]).split(), key=len, reverse=True)
#: Metrics that MLflow's autologging of scikit-learn makes of calls: ``SVC_score_X_test``, and
#: ``accuracy_score-2_X_test`` for the second call on these data.
_CALLED = re.compile(
    rf"(?:[A-Z]\w*?_(?P<score>score)|(?P<function>{'|'.join(_FUNCTIONS)}))"
    r"(?:-(?P<call>\d{1,4}))?_(?P<variable>[^\W\d]\w*)"
)
#: What stands behind a metric's name and is no variable: averages, statistics and folds.
_NO_VARIABLE = re.compile(
    r"(macro|micro|weighted|samples|binary|mean|std|min|max|avg|average|best|class|label|"
    r"(fold|split|cv|epoch|step|repeat|run)_?\d*)(_.*)?",
    re.IGNORECASE,
)
_TRAIN = r"train|training"
_TUNE = r"val|valid|validation|dev|eval|evaluation"
_TEST = r"test|testing|heldout|holdout"
_PREFIX = re.compile(rf"(?P<data>{_TRAIN}|{_TUNE}|{_TEST})(?:_\d{{1,3}})?[-_/. ]", re.IGNORECASE)
#: XGBoost and LightGBM number the sets of `eval_set`.
_NUMBERED = re.compile(r"(validation|valid|eval)_(\d{1,3})-(.+)")
_SUFFIX = re.compile(rf"[-_/. ](?P<data>{_TRAIN}|{_TUNE}|{_TEST})$", re.IGNORECASE)
_DATA = {
    **dict.fromkeys(_TRAIN.split("|"), TRAINING),
    **dict.fromkeys(_TUNE.split("|"), VALIDATION),
    **dict.fromkeys(_TEST.split("|"), HELD_OUT),
}
#: What libraries add to a term: Lightning "_epoch", Keras "_1", others averages and the k at which.
_ADDED = re.compile(
    r"_(epoch|\d+|macro|micro|weighted|samples|at_[\d.]+)$|@[\d.]+-?$|/(mean|v1)$", re.IGNORECASE
)
#: What a search of scikit-learn says of its candidates: means over folds of the training data.
_SEARCHED = ("best_cv_score", "mean_test_score")
#: What is logged of a training and measures no prediction.
_BOOKKEEPING = re.compile(
    r"example_count|(sum|mean)_on_target|(true|false)_(positives|negatives)|(std|rank)_test_score|"
    r"split\d+_test_score|(mean|std)_(fit|score)_time|"
    r"(best|stopped|restored|num)_(iteration|epoch|round)s?|epoch|(global_)?step|lr(-.*)?|"
    r"learning_rate|grad_norm|total_flos|(.*_)?(runtime|(samples|steps)_per_second)|.*_step",
    re.IGNORECASE,
)


def _of_call(name: str) -> Term | None:
    """What the metric of a scikit-learn function means that was called on a variable."""
    called = _CALLED.fullmatch(name)
    if not called or _NO_VARIABLE.fullmatch(variable := called["variable"]):
        return None
    measure = called["score"] or called["function"]
    call = int(called["call"] or 1)
    return Term(measure, _DIRECTIONS[measure], _data_of(variable), variable, call)


#: What libraries call one measure, by the name that joins it.
_ALIKE = {
    "log_loss": (
        "logloss mlogloss binary_logloss multi_logloss cross_entropy binary_crossentropy "
        "categorical_crossentropy sparse_categorical_crossentropy Logloss MultiClass CrossEntropy"
    ),
    "roc_auc": "auc AUC roc_auc_score",
    "average_precision_score": "aucpr average_precision",
    "accuracy_score": (
        "accuracy Accuracy binary_accuracy categorical_accuracy sparse_categorical_accuracy"
    ),
    "f1_score": "f1 F1",
    "zero_one_loss": "error merror binary_error multi_error ZeroOneLoss",
    "r2_score": "r2 R2",
    "rmse": "RMSE root_mean_squared_error",
    "mse": "l2 mean_squared_error",
    "mae": "l1 MAE mean_absolute_error",
    "mape": "MAPE mean_absolute_percentage_error",
}
#: What joined names begin with, by data.
_BEFORE = {HELD_OUT: "", VALIDATION: "val_", TRAINING: "training_"}
_JOINED = {word: name for name, words in _ALIKE.items() for word in (name, *words.split())}


def joined_term(name: str) -> str:
    """The name that joins what libraries call one measure on such data, "" where there is none."""
    known = None if name in MEASURES else term(name)
    if known is None or known.variable or known.measure not in _JOINED:
        return ""
    return _BEFORE[known.data] + _JOINED[known.measure]


@lru_cache(maxsize=10_000)
def term(name: str) -> Term | None:
    """What the metric of another library means; None where no library's documentation has it."""
    if name in _SEARCHED:
        return Term(name, "max", VALIDATION)
    if is_bookkeeping(name):
        return None
    if called := _of_call(name):
        return called
    stem = name
    data = HELD_OUT
    if at := _PREFIX.match(name) or _SUFFIX.search(name):
        stem = name[: at.start()] + name[at.end() :]
        data = _DATA[at["data"].lower()]
    elif name == "loss":  # of training data, of Keras and Transformers; or of whatever else
        return None
    while stem not in _DIRECTIONS and (shorter := _ADDED.sub("", stem)) != stem:
        stem = shorter
    measure = MEASURES.get(stem) if stem != name else None
    way = _DIRECTIONS.get(stem) or (measure.direction if measure else None)
    return Term(stem, way, data) if way else None


def _data_of(variable: str) -> str:
    """Which data a variable of a script holds, by its name."""
    spaced = re.sub(r"^[Xx](?=[a-z])|(?<=[a-z])(?=[A-Z])", "_", variable)
    parts = re.findall("[a-z]+", spaced.lower())
    if not {"train", "training", "tr"}.isdisjoint(parts):
        return TRAINING
    return HELD_OUT if {"val", "valid", "validation", "dev"}.isdisjoint(parts) else VALIDATION


def data_of(metric: str) -> str:
    """On which data a metric was measured, as far as its name tells."""
    known = term(metric)
    return known.data if known else _data_of(metric)


def is_bookkeeping(name: str) -> bool:
    """Whether a metric of this name says how a training went, and measures no prediction."""
    return _BOOKKEEPING.fullmatch(name) is not None


def of_training(names: Collection[str]) -> set[str]:
    """Those metrics that were, or may have been, measured on training data."""
    there = set(names)
    found = set()
    for name in there:
        prefix = _PREFIX.match(name)
        known = term(name)
        by_name = (known and known.data, prefix and _DATA[prefix["data"].lower()])
        twins = [twin + name for twin in ("val_", "valid_", "validation_", "eval_")]
        if numbered := _NUMBERED.fullmatch(name):
            # of several evaluation sets the last one stops the training; others may be of it
            kind, number, metric = numbered.groups()
            twins = [f"{kind}_{int(number) + 1}-{metric}"]
        if not is_bookkeeping(name) and (TRAINING in by_name or not there.isdisjoint(twins)):
            found.add(name)
    return found


def calls_by_measure(names: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """By measure the metrics that MLflow named after calls, with the variable of each; the last
    call on test data, else the last, stands last."""
    calls = [(known, name) for name in names if (known := term(name)) and known.variable]
    calls.sort(key=lambda call: ("test" in call[0].variable.lower(), call[0].call))
    return grouped((_BEFORE[of.data] + of.measure, (name, of.variable)) for of, name in calls)


#: Words of names that mean a share, or an area, between 0 and 1.
_SHARES = (
    "acc|accuracy|auc|auroc|auprc|ap|f1|precision|recall|sensitivity|specificity|iou|dice|jaccard"
)
#: Words of names that mean what a method costs.
_COSTS = "latency|time|duration|seconds|sec|secs|ms|cost|price|usd|tokens|memory|mb|gb|bytes"
#: Words of names by which a direction is proposed; it holds once somebody has confirmed it.
_LARGER = re.compile(
    f"{_SHARES}|fbeta|score|r2|map|mrr|ndcg|bleu|rouge|meteor|mcc|kappa|reward|return|success|"
    "correct|correctness|win|pass|hit|hits|similarity|correlation|corr|lift|profit|revenue|"
    "throughput|relevance|faithfulness|groundedness|quality"
)
_SMALLER = re.compile(
    f"{_COSTS}|loss|err|error|errors|rmse|mae|mse|mape|nll|ppl|perplexity|wer|cer|ter|s|distance|"
    "divergence|regret|deviance|brier|ece|violations|failures|toxicity"
)


def _words(name: str) -> list[str]:
    """The words of a name, each with a digit that follows it."""
    return re.findall("[a-z]+[0-9]?", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def proposed_direction(name: str) -> Direction | None:
    """Which way the words of a name suggest; the last word that suggests any."""
    for word in reversed(_words(name)):
        if _LARGER.fullmatch(word):
            return "max"
        if _SMALLER.fullmatch(word):
            return "min"
    return None


def is_cost(name: str) -> bool:
    """Whether the words of a name mean time, money, tokens or size."""
    costs = {*_COSTS.split("|"), "params", "parameters", "flops"}
    return proposed_direction(name) != "max" and not costs.isdisjoint(
        word.rstrip("0123456789") for word in _words(name)
    )


def is_share(name: str) -> bool:
    """Whether values of this name lie between 0 and 1, unless they are percentages."""
    if name in MEASURES:
        return MEASURES[name].range == (0, 1)
    return not {*_SHARES.split("|")}.isdisjoint(_words(name))


#: Losses of libraries that cannot lie below 0, in words of their terms.
_NOT_NEGATIVE = re.compile(
    "logloss|mlogloss|log_loss|.*crossentropy|multi_error|merror|error|.*_error|hamming_loss|"
    "zero_one_loss|brier_score_loss|rmse|rmsle|mae|mape|mse|msle|l1|l2|perplexity|wer|cer|ter|"
    "binary_logloss|multi_logloss|cross_entropy|kullback_leibler|Logloss|MultiClass|CrossEntropy"
)


def range_of(name: str, values: Iterable[float]) -> tuple[float, float]:
    """Between which values a measure lies, by its name unless these values say otherwise."""
    if name in MEASURES:
        return MEASURES[name].range
    highest = max(given := list(values), default=0.0)
    if name == "score" and highest <= 1:
        return -math.inf, 1.0  # scikit-learn's: the accuracy, or R²
    lowest = min(given, default=0.0)
    if is_share(name) and highest <= 1 and lowest >= 0:
        return 0.0, 1.0
    known = term(name)
    if known is not None and lowest >= 0 and _NOT_NEGATIVE.fullmatch(known.measure):
        return 0.0, math.inf
    return -math.inf, math.inf


def directions(
    names: Iterable[str],
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    proposed: bool = False,
) -> dict[str, Direction]:
    """Direction of each measure, declared or known; a ValueError names those without one."""
    minimize, maximize = set(minimize), set(maximize)
    if both := sorted(minimize & maximize):
        twice = ", ".join(repr(str(name)) for name in both)
        raise ValueError(f"{twice} declared both as minimised and as maximised. Choose one.")
    declared = dict.fromkeys(minimize, _WAYS[1]) | dict.fromkeys(maximize, _WAYS[0])
    ways = {name: declared.get(name) or direction_of(name, proposed) for name in names}
    if unknown := [name for name, way in ways.items() if way is None]:
        listed = ", ".join(repr(str(name)) for name in unknown)
        text = f"no direction is known for {listed}.{meant(unknown)} Declare it: "
        raise ValueError(Message(text, DECLARE, ", or leave the measure out."))
    return {name: way for name, way in ways.items() if way is not None}


def direction_of(name: str, proposed: bool = False) -> Direction | None:
    """Which way is better by a documentation or a confirmed proposal; else None."""
    if name in MEASURES:
        return MEASURES[name].direction
    known = term(name)
    if known is None and proposed and not is_bookkeeping(name):
        return proposed_direction(name)
    return known.direction if known else None


def suggestions(metrics: Iterable[str]) -> dict[str, str]:
    """The directions that are proposed, of those metrics that have one."""
    return {m: way for m in metrics if (way := direction_of(m, True))}
