"""One label of several classes: data, and our measures as others compute them."""

import numpy as np
from measure_references import Case, one_label, one_label_scores
from sklearn.feature_extraction.text import TfidfVectorizer

import mlflow_mleval as mleval

DIGITS = mleval.Hierarchy(
    [("round", d) for d in (0, 6, 8, 9)]
    + [("straight", d) for d in (1, 4, 7)]
    + [("mixed", d) for d in (2, 3, 5)]
)


def reference_of(y, pred, p):
    """Our measures of these classes and probabilities, by scikit-learn and by their definition."""
    classes = np.unique(y)
    true, said = (np.asarray(given)[:, None] == classes for given in (y, pred))
    p = np.column_stack([1 - p, p]) if p.ndim == 1 else p
    case = Case(true.astype(int), p, said.astype(int))
    found = one_label(case) | one_label_scores(case, bins=())
    return {name: value for name, value in found.items() if not np.isnan(value)}


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
