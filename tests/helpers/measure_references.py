"""Every measure of the registry by the letter of its definition, in loops over tiny data or by
scikit-learn.

Each function takes a `Case` and gives values by name, NaN where the definition gives none. Scores
are float64 here.
"""

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hierarchy_reference import Reference
from sklearn import metrics

from mlflow_mleval.measures.hierarchical import instance_measures
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import SETS

NAN = float("nan")


@dataclass
class Case:
    """Truth, scores and predictions N x K, training labels, and a hierarchy of the labels."""

    y: np.ndarray
    s: np.ndarray | None
    p: np.ndarray
    epsilon: float = np.finfo(float).eps
    train: np.ndarray | None = None
    names: list | None = None
    edges: list | None = None
    nodes: list | None = None

    @cached_property
    def tree(self):
        return Reference(self.edges, nodes=self.nodes)

    def sets(self, matrix):
        return [{self.names[j] for j in np.flatnonzero(row)} for row in matrix]

    @property
    def probable(self):
        return self.s is not None and self.s.min() >= 0 and self.s.max() <= 1


def ratio(part, whole):
    return part / whole if whole else NAN


def rates(both, true, pred):
    """Precision, recall and F1; 0 where there is nothing to divide by."""
    return [
        part / whole if whole else 0.0
        for part, whole in ((both, pred), (both, true), (2 * both, true + pred))
    ]


# ---- label sets ----------------------------------------------------------------------------------


def sixteen(c):
    y, p = c.y.astype(bool), c.p.astype(bool)
    rows = [rates((a & b).sum(), a.sum(), b.sum()) for a, b in zip(y, p, strict=True)]
    columns = [rates((a & b).sum(), a.sum(), b.sum()) for a, b in zip(y.T, p.T, strict=True)]
    found = {
        "hamming_loss": (y != p).mean(),
        "subset_accuracy": (y == p).all(axis=1).mean(),
        "accuracy": np.mean((y & p).sum(axis=1) / np.maximum((y | p).sum(axis=1), 1)),
    }
    for i, name in enumerate(("precision", "recall", "f1")):
        found[name] = np.mean([row[i] for row in rows])
        found[f"macro_{name}"] = np.mean([column[i] for column in columns])
        found[f"micro_{name}"] = rates((y & p).sum(), y.sum(), p.sum())[i]
    if c.s is None:
        return found | dict.fromkeys(SETS["ranking"], NAN)
    ranking = defaultdict(list)
    for t, s in zip(y, c.s, strict=True):
        ranks = {j: int((s >= s[j]).sum()) for j in np.flatnonzero(t)}
        wrong = [(s[j] <= s[~t]).sum() for j in ranks]
        ranking["one_error"].append(not t[s.argmax()])
        ranking["coverage"].append(max(ranks.values(), default=1) - 1)
        ranking["ranking_loss"].append(sum(wrong) / max(len(wrong) * (~t).sum(), 1))
        shares = [(s[t] >= s[j]).sum() / rank for j, rank in ranks.items()]
        ranking["average_precision"].append(np.mean(shares) if shares else 1.0)
    return found | {name: np.mean(values) for name, values in ranking.items()}


def losses(errors):
    """The binomial loss for k = 1..K: the mean of the largest error over all sets of k labels."""
    sizes = range(1, errors.shape[1] + 1)
    sets = ([[*s] for s in itertools.combinations(range(errors.shape[1]), k)] for k in sizes)
    return np.array([np.mean([errors[:, s].max(axis=1).mean() for s in some]) for some in sets])


def area(losses):
    return ((losses[1:] + losses[:-1]) / 2).mean() if len(losses) > 1 else losses[0]


def dependence(c):
    hard = losses((c.y != c.p).astype(float))
    wrong = hard[0] * len(hard)
    alike = int(wrong + 1e-9)  # as many wrong labels in every instance, and one more in some
    row = [1.0] * alike + [max(wrong - alike, 0.0)] + [0.0] * len(hard)
    worst = losses(np.array([row[: len(hard)]]))
    room = area(worst) - hard[0]
    found = {
        "binomial_area": area(hard),
        "binomial_slope": hard[-1] - hard[0],
        "binomial_gain": 1 - (area(hard) - hard[0]) / room if room > 1e-9 else NAN,
    }
    soft = losses(np.abs(c.s - c.y)) if c.probable else np.full(2, NAN)
    return found | {
        "soft_hamming_loss": soft[0],
        "soft_subset_loss": soft[-1],
        "soft_binomial_area": area(soft),
        "soft_binomial_slope": soft[-1] - soft[0],
    }


def at_k(c, k):
    """Precision, recall, nDCG, and their propensity-scored forms."""
    weights = [1.0] * c.y.shape[1]
    if c.train is not None:
        scale = (np.log(len(c.train)) - 1) * 2.5**0.55
        weights = 1 + scale * np.exp(-0.55 * np.log(c.train.sum(axis=0) + 1.5))
    found, gains = np.zeros(3), np.zeros((2, 2))
    for truth, scores in zip(c.y, c.s if c.s is not None else (), strict=c.s is not None):
        order = sorted(range(len(scores)), key=lambda label: (-scores[label], label))[:k]
        hits = [
            (rank, label) for rank, label in enumerate(order) if truth[label] and scores[label] != 0
        ]
        count = int(truth.sum())
        ideal = sum(1 / np.log2(i + 2) for i in range(min(k, count))) or 1
        found += (
            len(hits) / k,
            len(hits) / max(count, 1),
            sum(1 / np.log2(rank + 2) for rank, _ in hits) / ideal,
        )
        best = sorted((weights[label] for label in np.flatnonzero(truth)), reverse=True)[:k]
        gains[0] += sum(weights[label] for _, label in hits), sum(best)
        gains[1] += (
            sum(weights[label] / np.log2(rank + 2) for rank, label in hits) / ideal,
            sum(w / np.log2(i + 2) for i, w in enumerate(best)) / ideal,
        )
    values = [
        *found / len(c.y),
        *(ratio(gain, most) if c.train is not None else NAN for gain, most in gains),
    ]
    names = ("precision", "recall", "ndcg", "psp", "psndcg")
    return {f"{m}_at_{k}": NAN if c.s is None else v for m, v in zip(names, values, strict=True)}


def auroc(t, s):
    pos, neg = s[t == 1][:, None], s[t == 0]
    return ((pos > neg) + (pos == neg) / 2).mean() if len(pos) and len(neg) else NAN


def ap(t, s):
    return np.mean([t[s >= score].mean() for score in s[t == 1]]) if t.any() else NAN


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def interpolated(t, s):
    """Area under the precision-recall curve of Davis & Goadrich by Gauss quadrature."""
    if not t.any():
        return NAN
    total = tp = fp = 0.0
    for score in np.unique(s)[::-1]:
        pos, neg = ((t == v)[s == score].sum() for v in (1, 0))
        if pos:
            way = (_NODES + 1) / 2
            right = tp + way * pos
            total += pos * _WEIGHTS @ (right / (right + fp + way * neg)) / 2
        tp, fp = tp + pos, fp + neg
    return total / t.sum()


def averages(each, weights):
    """The mean of what is known, plain and weighted."""
    known = ~np.isnan(each)
    if not known.any():
        return [NAN, NAN]
    return [each[known].mean(), np.average(each[known], weights=weights[known])]


def curves(c):
    names = [f"{a}_{m}" for m in ("auroc", "ap") for a in ("macro", "weighted", "micro")]
    names += ["auprc_mean", "auprc_weighted", "auprc_curve"]
    if c.s is None:
        return dict.fromkeys(names, NAN)
    values = []
    for measure in (auroc, ap, interpolated):
        each = np.array([measure(t, s) for t, s in zip(c.y.T, c.s.T, strict=True)])
        values += averages(each, c.y.sum(axis=0))
        values.append(measure(c.y.ravel(), c.s.ravel()))
    return dict(zip(names, values, strict=True))


def calibration(right, confidence, bins):
    """Equal probabilities in the bin of their middle, bins of equal numbers."""
    gaps, below = np.zeros(bins), 0
    for p in np.unique(confidence):
        n = (confidence == p).sum()
        gaps[min(int((below + n / 2) / len(right) * bins), bins - 1)] += (
            right[confidence == p].sum() - n * p
        )
        below += n
    return np.abs(gaps).sum() / len(right)


def probabilities(c, bins=15):
    if not c.probable:
        return dict.fromkeys(("log_loss", "brier_score", f"ece_{bins}"), NAN)
    off = np.clip(np.abs(c.s - c.y), c.epsilon, 1 - c.epsilon)
    return {
        "log_loss": -np.log(1 - off).mean(),
        "brier_score": ((c.s - c.y) ** 2).mean(),
        f"ece_{bins}": calibration(c.y.ravel(), c.s.ravel(), bins),
    }


def matthews(t, p):
    return np.corrcoef(t, p)[0, 1] if t.min() < t.max() and p.min() < p.max() else 0.0


def further(c):
    y, p, support = c.y.astype(bool), c.p.astype(bool), c.y.sum(axis=0)
    columns = list(zip(y.T, p.T, strict=True))
    found = {
        "micro_matthews": matthews(y.ravel(), p.ravel()),
        "macro_matthews": np.mean([matthews(t, q) for t, q in columns]),
        "macro_jaccard": np.mean([(t & q).sum() / max((t | q).sum(), 1) for t, q in columns]),
    }
    recalls = [[q[t == v] == v for v in (False, True) if (t == v).any()] for t, q in columns]
    found["balanced_accuracy"] = np.mean([np.mean([r.mean() for r in both]) for both in recalls])
    by_label = np.array([rates((t & q).sum(), t.sum(), q.sum()) for t, q in columns])
    names = ("weighted_precision", "weighted_recall", "weighted_f1")
    weighted = support @ by_label / support.sum() if support.any() else [NAN] * 3
    return found | dict(zip(names, weighted, strict=True))


# ---- a hierarchy ---------------------------------------------------------------------------------


def hierarchical(c):
    """Means and ratios over instances, which test_hierarchical.py checks."""
    h = Hierarchy(c.edges, nodes=c.nodes)
    table = instance_measures(c.sets(c.y), c.sets(c.p), h)
    sums = table.sum()
    error, bound = sums["mgia_error"], sums["mgia_bound"]
    found = {name: values.mean(skipna=False) for name, values in table.items()}
    found["micro_mgia"] = 1 - (error / bound if bound else 0)
    for name in ("h", "descendant", "lca"):
        sizes = [sums[f"{name}_{part}"] for part in ("intersection", "true_size", "pred_size")]
        values = rates(*sizes) if any(sizes) else [1.0] * 3
        names = (f"micro_{name}_{rate}" for rate in ("precision", "recall", "f1"))
        found |= dict(zip(names, values, strict=True))
    return found


def levels(c, level):
    def depth(v):
        return 1 + max(
            (depth(u) for u in c.tree.graph.predecessors(v) if u != "virtual root"), default=0
        )

    here = {v for v in c.nodes if depth(v) == level}
    both = true = pred = 0
    missing = []
    for t, q in zip(c.sets(c.y), c.sets(c.p), strict=True):
        a, b = c.tree.extended(t), c.tree.extended(q)
        both, true, pred = both + len(a & b & here), true + len(a & here), pred + len(b & here)
        missing.append(len(b) - len(q))
    found = {
        f"level_{level}_precision": ratio(both, pred),
        f"level_{level}_recall": ratio(both, true),
        f"level_{level}_f1": ratio(2 * both, true + pred),
    }
    return found | {
        "violation_rate": np.mean(np.array(missing) > 0),
        "missing_ancestors": np.mean(missing),
    }


def best_thresholds(c):
    """F_max and S_min by trying every score as threshold."""
    if not c.probable:
        return {"f_max": NAN, "s_min": NAN}
    truths = [c.tree.extended(t) for t in c.sets(c.y)]
    f_max = 0.0 if any(truths) else NAN
    bits = None if c.train is None else information(c)
    s_min = NAN if bits is None else np.inf
    for threshold in [*np.unique(c.s[c.s > 0]), np.inf]:
        preds = [c.tree.extended(q) for q in c.sets(c.s >= threshold)]
        pairs = list(zip(truths, preds, strict=True))
        precisions, recalls = (
            [len(t & q) / len(q) for t, q in pairs if q],
            [len(t & q) / len(t) for t, q in pairs if t],
        )
        if precisions and recalls and any(recalls):
            a, b = np.mean(precisions), np.mean(recalls)
            f_max = max(f_max, 2 * a * b / (a + b))
        if bits is not None:
            missing, wrong = (
                np.mean([sum(bits[v] for v in side(t, q)) for t, q in pairs])
                for side in (lambda t, q: t - q, lambda t, q: q - t)
            )
            s_min = min(s_min, np.hypot(missing, wrong))
    return {"f_max": f_max, "s_min": s_min}


def information(c):
    trained = [c.tree.extended(t) for t in c.sets(c.train)]
    found = {}
    for v in c.nodes:
        parents = {u for u in c.tree.graph.predecessors(v) if u != "virtual root"}
        could = sum(parents <= t for t in trained)
        found[v] = -np.log2(max(sum(v in t for t in trained), 1) / max(could, 1))
    return found


def distance_at(c, k, zeros=False):
    if c.s is None:
        return {f"distance_at_{k}": NAN}
    found = []
    for t, scores in zip(c.sets(c.y), c.s, strict=True):
        order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:k]
        top = [c.names[j] for j in order if zeros or scores[j] != 0]
        found.append(float(min((c.tree.distance(a, b) for a in t for b in top), default=NAN)))
    return {f"distance_at_{k}": np.mean(found)}


# ---- one label -----------------------------------------------------------------------------------


def one_label(c):
    """Of the classes as numbers; scikit-learn's own functions where it has them."""
    y, p = c.y.argmax(axis=1), c.p.argmax(axis=1)
    found = {
        "top1_accuracy": metrics.accuracy_score(y, p),
        "balanced_accuracy": metrics.recall_score(y, p, average="macro", labels=np.unique(y)),
        "matthews": metrics.matthews_corrcoef(y, p),
    }
    labels = np.unique(np.r_[y, p])
    found["kappa"] = NAN if len(labels) == 1 else metrics.cohen_kappa_score(y, p)
    for average, rate in itertools.product(("macro", "weighted"), ("precision", "recall", "f1")):
        score = getattr(metrics, f"{rate}_score")
        found[f"{average}_{rate}"] = score(y, p, average=average, zero_division=0)
    return found


def one_label_scores(c, tops=(5,), bins=(15,)):
    n, k = c.y.shape
    names = ["macro_auroc", "weighted_auroc", "log_loss", "brier_score"]
    names += [f"top_k_accuracy_{t}" for t in tops] + [f"ece_{b}" for b in bins]
    if c.s is None:
        return dict.fromkeys(names, NAN)
    y, found = c.y.argmax(axis=1), {}
    ranks = np.array(
        [sorted(range(k), key=lambda j: (-s[j], j)).index(t) for t, s in zip(y, c.s, strict=True)]
    )
    found |= {f"top_k_accuracy_{t}": np.mean(ranks < t) if t < k else NAN for t in tops}
    each = np.array([auroc(t, s) for t, s in zip(c.y.T, c.s.T, strict=True)])[1 if k == 2 else 0 :]
    areas = averages(each, c.y.sum(axis=0)[1 if k == 2 else 0 :])
    found |= dict(zip(("macro_auroc", "weighted_auroc"), areas, strict=True))
    if not c.probable:
        return found | dict.fromkeys([m for m in names if m not in found], NAN)
    own = c.s[np.arange(n), y]
    found["log_loss"] = -np.log(np.clip(own, c.epsilon, 1 - c.epsilon)).mean()
    found["brier_score"] = ((c.s - c.y) ** 2).mean()
    right = (c.p == c.y).all(axis=1).astype(float)
    return found | {f"ece_{b}": calibration(right, c.s.max(axis=1), b) for b in bins}


def references(c, kind, names):
    """The values of all measures of a kind, among them those of these names with numbers."""
    numbers = defaultdict(set)
    for name in names:
        if found := re.search(r"(distance_at|at|ece|top_k|level)_(?:accuracy_)?(\d+)", name):
            numbers[found[1]].add(int(found[2]))
    found = {}
    if kind == "label sets":
        found = sixteen(c) | dependence(c) | curves(c) | probabilities(c) | further(c)
        for k in numbers["at"]:
            found |= at_k(c, k)
        for bins in numbers["ece"]:
            found |= probabilities(c, bins)
    elif kind == "one label":
        found = one_label(c) | one_label_scores(c, sorted(numbers["top_k"]), sorted(numbers["ece"]))
    if c.edges is not None:
        found |= hierarchical(c)
        for level in numbers["level"]:
            found |= levels(c, level)
        for k in numbers["distance_at"] if kind != "class sets" else ():
            found |= distance_at(c, k, zeros=kind == "one label")
        found |= best_thresholds(c) if kind == "label sets" else {}
    return found
