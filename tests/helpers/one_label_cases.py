"""One label of several classes: data, and our measures as scikit-learn computes them."""

import numpy as np
import sklearn
from sklearn import metrics
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

import mlflow_mleval as mleval

DIGITS = mleval.Hierarchy(
    [("round", d) for d in (0, 6, 8, 9)]
    + [("straight", d) for d in (1, 4, 7)]
    + [("mixed", d) for d in (2, 3, 5)]
)


_PROBA = "y_proba" if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9) else "y_pred"


def of_sklearn(y, pred, p=None, score=None, labels=None):
    """Our measures as scikit-learn computes them."""
    found = {
        "top1_accuracy": metrics.accuracy_score(y, pred),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, pred),
        "matthews": metrics.matthews_corrcoef(y, pred),
        "kappa": metrics.cohen_kappa_score(y, pred),
    }
    for average in ("macro", "weighted"):
        for name in ("precision", "recall", "f1"):
            value = getattr(metrics, f"{name}_score")(y, pred, average=average, zero_division=0)
            found[f"{average}_{name}"] = value
    if p is not None:
        labels = np.unique(y) if labels is None else np.asarray(labels)
        hot = np.asarray(y)[:, None] == labels
        found["log_loss"] = metrics.log_loss(y, **{_PROBA: p}, labels=labels)
        found["brier_score"] = (
            ((np.column_stack([1 - p, p]) if p.ndim == 1 else p) - hot).__pow__(2).mean()
        )
        if p.ndim == 2 and p.shape[1] > 5:
            # Turned round, for of equal scores scikit-learn takes the last class first.
            turned = len(labels) - 1 - np.searchsorted(labels, y)
            found["top_k_accuracy_5"] = metrics.top_k_accuracy_score(
                turned, p[:, ::-1], k=5, labels=range(len(labels))
            )
        score = p
    if score is not None:
        if score.ndim == 1:
            found |= dict.fromkeys(("macro_auroc", "weighted_auroc"), roc_auc_score(y, score))
        else:
            areas = [
                roc_auc_score(hot, s)
                for hot, s in zip((np.asarray(y)[:, None] == labels).T, score.T, strict=True)
            ]
            found["macro_auroc"] = np.mean(areas)
            found["weighted_auroc"] = np.average(
                areas, weights=[np.sum(np.asarray(y) == c) for c in labels]
            )
    return found


def text_data():
    """A corpus of three topics with words in common, as many documents as make it fail at times."""
    rng = np.random.default_rng(0)
    topics = {
        "sport": "goal match team win coach",
        "money": "bank rate market win loan",
        "food": "bread salt goal rate oven",
    }
    y = rng.choice(list(topics), 90)
    words = [rng.choice([*topics[c].split(), "the", "a", "new", "team", "market"], 4) for c in y]
    return TfidfVectorizer().fit_transform([" ".join(w) for w in words]), y
