"""Do flat and hierarchical measures agree about systems?

Nine of them on image codes and gene functions.

    python examples/studies/hierarchical_study.py FOLDER [DATASET ...]

FOLDER holds sets in the ARFF of Clus, NAME_Train.arff and NAME_Test.arff, or NAME.train.arff,
NAME.valid.arff (it is trained on, too) and NAME.test.arff; by default ImCLEF07D, cellcycle_FUN and
pheno_GO. Without FOLDER a small version runs on made data, in half a minute. Every system is a run
of the store that MLFLOW_TRACKING_URI names (by default mlflow.db in the working folder). Complete
runs are kept: a study that was stopped goes on where it stopped. The three sets take about two
minutes on one core. Then it prints what one would type in a terminal, and writes mleval_report.html
and hierarchical_study.md: where the systems are ranked otherwise by hierarchical measures than by
flat ones, as section 4 of Kosmopoulos et al. (2015) asks.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import pairwise_distances

import mlflow_mleval as mleval
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.store.study_artifacts import instances_of

DATASETS = ("ImCLEF07D", "cellcycle_FUN", "pheno_GO")
SEED, ALPHA = 0, 0.05
FLAT = ("subset_accuracy", "f1", "micro_f1", "macro_f1", "hamming_loss", "average_precision")
HIERARCHICAL = ("h_f1", "symmetric_difference_loss", "gie", "mgia", "lca_f1")
#: By instance, flat and hierarchical: what the sign tests ask.
SIGN = ("f1", "h_f1", "mgia", "lca_f1")
ABOUT = """\
Kosmopoulos et al. (2015, section 4) ask it of the systems of two challenges. Here nine systems are made with scikit-learn,
trained and tested on the given parts of each dataset, each a tracked run. Written by `python examples/studies/hierarchical_study.py
FOLDER`.
"""  # noqa: E501
SYSTEMS_IN_WORDS = """\
The truth is the most specific classes of an instance. "k-NN" and "forest" know these classes only; "+ ancestors" predicts the
same and all classes above them, as system X2 did in the paper. "closed forest" learns classes with their ancestors and
predicts the most specific ones; "path average" scores a class by the mean of its path. "by node" and "by parent" ask the
nearest instances of a parent from the top down, "by level" has a forest a level. Thresholds are set by
`mleval.calibrate_threshold` from the training truth.
"""  # noqa: E501
NOTES = """## Reading it

- Where an instance has one class in a small tree (ImCLEF07D), flat and hierarchical measures mostly agree: 5 of 36 pairs are
  ordered otherwise. The forest of flat classes is right more often than the closed forest and the forests by level, but
  farther off where it is wrong.
- On the gene functions they order systems the other way round. Flat F1 favours systems that know the most specific classes
  only. The closed forest and the forests by level rarely hit exactly the right class, and come nearest to it.
- A system that lists all ancestors halves its flat F1. Measures of extended sets and of lowest common ancestors do not see
  the difference; GIE, where every class is paired once, charges it most. So far the paper says the same of its system X2.
  MGIA, which should lie in between, does so on ImCLEF07D, and prefers the list of ancestors on both sets of functions: every
  class that is added raises the bound by which its error is divided, and true classes that had nothing near them now do.
- GIE goes with the Hamming loss rather than with other hierarchical measures, and favours systems that predict little: both
  count errors and no hits, as the paper says of GIE and of the symmetric difference.
"""  # noqa: E501


# ---- data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dataset:
    """Features and the most specific classes of training and test instances, and the hierarchy."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    X_test: np.ndarray
    Y_test: np.ndarray
    hierarchy: mleval.Hierarchy

    @cached_property
    def parents(self) -> list[list[int]]:
        """The parents of each class."""
        place = {name: i for i, name in enumerate(self.hierarchy.nodes)}
        return [sorted(place[p] for p in self.hierarchy.parents(c)) for c in self.hierarchy.nodes]

    @cached_property
    def levels(self) -> list[list[int]]:
        """The classes by their longest way from a root."""
        depth = np.zeros(len(self.parents), int)
        for _ in self.parents:
            deeper = np.array(
                [1 + max((depth[p] for p in own), default=-1) for own in self.parents]
            )
            if (deeper == depth).all():
                break
            depth = deeper
        return [np.flatnonzero(depth == level).tolist() for level in range(depth.max() + 1)]

    @cached_property
    def above(self) -> sparse.csr_array:
        """Which class (column) is above which (row)."""
        found = np.zeros((len(self.parents),) * 2, bool)
        for c in (c for level in self.levels for c in level):
            for p in self.parents[c]:
                found[c] |= found[p]
                found[c, p] = True
        return sparse.csr_array(found)

    @cached_property
    def apart(self) -> np.ndarray:
        """Distances of test from training instances, rounded so that equal ones tie on every
        machine.
        """
        return pairwise_distances(self.X_test, self.X).round(6)

    def closed(self, sets: np.ndarray) -> np.ndarray:
        """The sets with all ancestors."""
        return sets | (
            sparse.csr_array(sets.astype(int)) @ self.above.astype(int)
        ).toarray().astype(bool)

    def lowest(self, sets: np.ndarray) -> np.ndarray:
        """The sets without classes that are above others of theirs."""
        return sets & ~(
            sparse.csr_array(sets.astype(int)) @ self.above.astype(int)
        ).toarray().astype(bool)


def read_clus(folder: Path, name: str) -> Dataset:
    """Training (and validation) and test part of a set; classes that no instance has, themselves or
    below, are left out.
    """
    parts = {
        re.split(r"[._]", path.stem)[-1].lower(): path
        for path in sorted(folder.glob(f"{name}[._]*.arff"))
    }
    if not {"train", "test"} <= parts.keys():
        raise SystemExit(
            f"{folder} holds no {name}.train.arff and {name}.test.arff. Give the folder of the "
            "Clus files."
        )
    tables, sets, counts = [], [], []
    for part in ("train", "valid", "test"):
        if part not in parts:
            continue
        head, data = re.split(
            r"(?im)^@data\s*$", parts[part].read_text(encoding="utf-8"), maxsplit=1
        )
        *features, (_, classes) = re.findall(r"(?im)^@attribute\s+(\S+)\s+(.+?)\s*$", head)
        rows = [line.strip().rsplit(",", 1) for line in data.splitlines() if line.strip()]
        tables.append(pd.DataFrame([row[0].split(",") for row in rows]).replace("?", np.nan))
        sets += [row[1].split("@") for row in rows]
        counts.append(len(rows))
    table = pd.concat(tables, ignore_index=True)
    names = classes.split(None, 1)[1].split(",")
    if any(c.startswith("root/") for c in names):  # a graph: parent/child
        h = mleval.Hierarchy(
            [pair for pair in (edge.split("/") for edge in names) if pair[0] != "root"]
        )
    else:
        h = mleval.Hierarchy.from_paths(names)
    numeric = [column for column, (_, kind) in enumerate(features) if "{" not in kind]
    X = np.hstack(
        [
            table[numeric].astype(float).to_numpy(),
            pd.get_dummies(table.drop(columns=numeric).fillna("?")).to_numpy(float)
            if len(numeric) < len(features)
            else np.empty((len(table), 0)),
        ]
    )
    n = len(X) - counts[-1]
    X = np.where(np.isnan(X), np.nanmedian(X[:n], axis=0), X)
    X = (X - X[:n].mean(axis=0)) / np.where(X[:n].std(axis=0) > 0, X[:n].std(axis=0), 1)
    seen = {c for row in sets for c in row}
    seen |= {a for c in seen for a in h.ancestors(c)}
    nodes = [c for c in h.nodes if c in seen]
    kept = mleval.Hierarchy([(p, c) for c in nodes for p in sorted(h.parents(c))], nodes=nodes)
    Y = kept.indicator(sets).toarray()
    data = Dataset(name, X[:n], Y[:n], X[n:], Y[n:], kept)
    return Dataset(name, X[:n], data.lowest(Y[:n]), X[n:], data.lowest(Y[n:]), kept)


def made_sets() -> Iterator[Dataset]:
    """A tree and a graph of 14 classes; an instance lies near one or two of its eight leaves."""
    rng = np.random.default_rng(SEED)
    tree = [(name[:-1], name) for n in (2, 3) for name in (f"{i:0{n}b}" for i in range(2**n))]
    for name, edges in (("made tree", tree), ("made graph", [*tree, ("01", "100"), ("10", "011")])):
        h = mleval.Hierarchy(edges, nodes=["0", "1"])
        centres = {c: rng.normal(0, 1, 6) for c in h.nodes}
        leaves = [c for c in h.nodes if len(c) == 3]
        sets = [rng.choice(leaves, 1 + (i % 4 == 0), replace=False).tolist() for i in range(240)]
        X = np.array(
            [np.mean([sum(centres[c[:k]] for k in (1, 2, 3)) for c in row], axis=0) for row in sets]
        )
        X += rng.normal(0, 0.9, X.shape)
        Y = h.indicator(sets).toarray()
        yield Dataset(name, X[:160], Y[:160], X[160:], Y[160:], h)


# ---- systems: scores of all classes, and the predicted sets --------------------------------------


def forest(d: Dataset, Y: np.ndarray) -> np.ndarray:
    """Probabilities by a forest whose trees have all labels in a leaf."""
    known = Y.any(axis=0)
    scores = np.zeros((len(d.X_test), Y.shape[1]))
    model = RandomForestRegressor(40, min_samples_leaf=5, max_features="sqrt", random_state=SEED)
    scores[:, known] = (
        model.fit(d.X, Y[:, known].astype(float)).predict(d.X_test).reshape(len(scores), -1)
    )
    return scores


def nearest(d: Dataset, Y: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
    """Shares of the 15 nearest training instances, or of those among some of them, that have each
    label.
    """
    apart = d.apart if among is None else d.apart[:, among]
    if not apart.shape[1]:
        return np.zeros((len(apart), Y.shape[1]))
    k = min(15, apart.shape[1])
    near = np.argsort(apart, axis=1, kind="stable")[:, :k]
    votes = sparse.csr_array(
        (np.full(near.size, 1 / k), near.ravel(), np.arange(0, near.size + 1, k)), shape=apart.shape
    )
    return votes @ (Y if among is None else Y[among]).astype(float)


def cut(Y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The classes with the best scores, as many per instance as in training on average."""
    return scores >= mleval.calibrate_threshold(Y, scores)


def flat(d: Dataset, scores: np.ndarray, ancestors: bool) -> tuple[np.ndarray, np.ndarray]:
    """The most specific classes, by their scores alone; or these and all ancestors, which score as
    their best descendant.
    """
    sets = cut(d.Y, scores)
    if not ancestors:
        return scores, sets
    scores = scores.copy()
    for c in (c for level in reversed(d.levels) for c in level):
        for p in d.parents[c]:
            scores[:, p] = np.maximum(scores[:, p], scores[:, c])
    return scores, d.closed(sets)


def neighbours(d: Dataset, ancestors: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """k-NN on the most specific classes."""
    return flat(d, nearest(d, d.Y), ancestors)


def trees(d: Dataset, ancestors: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A forest on the most specific classes."""
    return flat(d, forest(d, d.Y), ancestors)


def closed(d: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """A forest on classes with all their ancestors; of what it predicts, the most specific
    classes.
    """
    Y = d.closed(d.Y)
    scores = forest(d, Y)
    return scores, d.lowest(cut(Y, scores))


def averaged(d: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The same forest; a class scores as the mean of itself and its ancestors.

    The best most specific classes are predicted.
    """
    scores = forest(d, d.closed(d.Y))
    path = (sparse.csr_array(scores) @ d.above.T.astype(float)).toarray() + scores
    scores = path / (d.above.sum(axis=1) + 1) * d.Y.any(axis=0)
    sets = np.zeros(scores.shape, bool)
    best = np.argsort(-scores, axis=1, kind="stable")[:, : round(d.Y.sum(axis=1).mean())]
    np.put_along_axis(sets, best, True, axis=1)
    return scores, sets


def by_node(d: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Is it this class?

    Asked of the nearest instances of its parents, from the top down, where a parent was accepted.
    """
    Y, shape = d.closed(d.Y), (len(d.X_test), len(d.parents))
    scores, sets = np.zeros(shape), np.zeros(shape, bool)
    siblings: dict[tuple[int, ...], list[int]] = {}
    for c in (c for level in d.levels for c in level):
        siblings.setdefault(tuple(d.parents[c]), []).append(c)
    for level in d.levels:
        for parents in dict.fromkeys(tuple(d.parents[c]) for c in level):
            own = [c for c in siblings[parents] if c in level]
            p = nearest(d, Y[:, own], Y[:, parents].any(axis=1) if parents else None)
            scores[:, own] = p * (scores[:, parents].max(axis=1)[:, None] if parents else 1)
            sets[:, own] = (p >= 0.5) & (sets[:, parents].any(axis=1)[:, None] if parents else True)
    best = np.eye(shape[1], dtype=bool)[
        np.array(d.levels[0])[scores[:, d.levels[0]].argmax(axis=1)]
    ]
    return scores, d.lowest(sets | best * ~sets.any(axis=1)[:, None])


def by_parent(d: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Which child, or none?

    Asked of the nearest instances of each parent, from the top down: one class an instance.
    """
    Y, n, k = d.closed(d.Y), len(d.X_test), len(d.parents)
    children: list[list[int]] = [[] for _ in range(k + 1)]  # the last are the roots
    for c, own in enumerate(d.parents):
        for p in own or [k]:
            children[p].append(c)
    scores, sets, at = np.zeros((n, k + 1)), np.zeros((n, k + 1), bool), np.full(n, k)
    scores[:, k] = 1
    for p in [k, *(p for level in d.levels for p in level)]:
        options = np.column_stack(
            [Y[:, children[p]], np.zeros(len(Y), bool) if p == k else d.Y[:, p]]
        )
        chances = nearest(d, options, None if p == k else Y[:, p])
        scores[:, children[p]] = np.maximum(
            scores[:, children[p]], scores[:, [p]] * chances[:, :-1]
        )
        here, choice = at == p, np.array([*children[p], -1])[chances.argmax(axis=1)]
        sets[here & (choice < 0), p] = True
        at[here] = choice[here]
    return scores[:, :k], sets[:, :k]


def by_level(d: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """A forest a level; a class scores no more than the best of its parents."""
    Y, scores = d.closed(d.Y), np.zeros((len(d.X_test), len(d.parents)))
    for level, classes in enumerate(d.levels):
        scores[:, classes] = forest(d, Y[:, classes])
        for c in classes if level else ():
            scores[:, c] = np.minimum(scores[:, c], scores[:, d.parents[c]].max(axis=1))
    return scores, d.lowest(cut(Y, scores))


SYSTEMS: dict[str, Callable[[Dataset], tuple[np.ndarray, np.ndarray]]] = {
    "k-NN": neighbours,
    "k-NN + ancestors": lambda d: neighbours(d, ancestors=True),
    "forest": trees,
    "forest + ancestors": lambda d: trees(d, ancestors=True),
    "closed forest": closed,
    "path average": averaged,
    "by node": by_node,
    "by parent": by_parent,
    "by level": by_level,
}


# ---- study ---------------------------------------------------------------------------------------


def train(sets: Iterable[Dataset], experiment: str) -> None:
    """Run what the experiment does not hold yet."""
    mlflow.set_experiment(experiment)
    found = mlflow.search_runs(
        experiment_names=[experiment], filter_string="tags.`mleval.status` = 'complete'"
    )
    done = (
        set()
        if found.empty
        else set(zip(found["tags.mleval.method"], found["tags.mleval.dataset"], strict=True))
    )
    for d, (name, system) in product(sets, SYSTEMS.items()):
        if (name, d.name) in done:
            continue
        start = time.perf_counter()
        scores, sets_ = system(d)
        ev = mleval.evaluate(
            d.Y_test,
            np.clip(scores, 0, 1),
            sets_,
            label_names=d.hierarchy.nodes,
            hierarchy=d.hierarchy,
        )
        mleval.log_evaluation(
            ev, method=name, dataset=d.name, experiment_name=experiment, log_instances=True
        )
        print(
            f"{d.name:14} {name:19} f1 {ev.measures['f1']:.3f}  lca_f1 "
            f"{ev.measures['lca_f1']:.3f}  {time.perf_counter() - start:5.1f} s",
            file=sys.stderr,
            flush=True,
        )


def ask(experiment: str) -> None:
    """What one would type in a terminal."""
    for words in (
        ["rank", "-m", "sixteen"],
        ["rank", "-m", "class-sets"],
        ["compare", "--over", "instances", *(word for m in SIGN for word in ("-m", m))],
        ["report", "-m", "sixteen", "-m", "class-sets", "-o", "mleval_report.html"],
    ):
        words[1:1] = ["-n", experiment]
        print(f"\n$ mleval {shlex.join(words)}", flush=True)
        subprocess.run([Path(sys.executable).with_name("mleval"), *words], check=True)


# ---- findings ------------------------------------------------------------------------------------


def ranks(study: mleval.Study, dataset: str, measure: str) -> pd.Series:
    """1 is best."""
    return study.matrix(dataset)[measure].rank(ascending=MEASURES[measure].direction == "min")


def values(study: mleval.Study) -> list[str]:
    """The measures of each system on each dataset, with its ranks."""
    lines = []
    shown = [*FLAT, *HIERARCHICAL]
    for dataset in study.datasets:
        table, order = study.matrix(dataset), {m: ranks(study, dataset, m) for m in shown}
        lines += [
            f"### {dataset}",
            "",
            f"| system | {' | '.join(f'{m} {MEASURES[m].arrow}' for m in shown)} |",
            "|---" * (len(shown) + 1) + "|",
            *(
                f"| {name} | {' | '.join(f'{row[m]:.3f} ({order[m][name]:g})' for m in shown)} |"
                for name, row in table.loc[list(SYSTEMS)].iterrows()
            ),
            "",
        ]
    return lines


def agreement(study: mleval.Study) -> tuple[list[str], pd.DataFrame]:
    """Kendall's tau-b between the rankings by every two measures, the mean over datasets."""
    shown = [*FLAT, *HIERARCHICAL]
    by_dataset = [
        pd.DataFrame({m: ranks(study, d, m) for m in shown}).corr(method="kendall")
        for d in study.datasets
    ]
    tau = (
        pd.concat(by_dataset).groupby(level=0).mean().loc[shown, shown]
    )  # NaN where a measure ties all systems
    lines = [
        f"| | {' | '.join(shown)} |",
        "|---" * (len(shown) + 1) + "|",
        *(f"| {m} | {' | '.join(f'{v:.2f}' for v in row)} |" for m, row in tau.iterrows()),
        "",
    ]
    return lines, tau


def fused(study: mleval.Study) -> tuple[list[str], pd.DataFrame]:
    """The fused ranking by the sixteen flat measures beside the one by the class sets, on each
    dataset and over all.
    """
    both = {
        which: mleval.fuse(study.select(measures=[which])) for which in ("sixteen", "class-sets")
    }
    order = pd.concat(
        {which: f.ranks.T.assign(all=f.ranks.mean().rank()) for which, f in both.items()}, axis=1
    )
    columns = [*study.datasets, "all"]
    lines = [f"| system | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in SYSTEMS:
        cells = (
            f"{order.loc[name, ('sixteen', c)]:g} → {order.loc[name, ('class-sets', c)]:g}"
            for c in columns
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""], order


def signs(study: mleval.Study) -> list[str]:
    """Pairs of systems of which one is better by a flat measure and the other by a hierarchical
    one, both significantly.
    """
    flat_one, *others = SIGN
    rows, counts, n_pairs = [], [], 0
    for dataset in study.datasets:
        with instances_of(study, dataset, list(SIGN)) as known:
            table = mleval.instance_tests(
                known.sources, known.measures, n_resamples=99, seed=SEED
            ).table
        n_pairs += len(table) // len(SIGN)
        table["winner"] = np.where(
            table["sign_corrected"] <= ALPHA, np.sign(table["wins"] - table["losses"]), 0
        )
        against = []
        for (a, b), pair in table.set_index("measure").groupby(
            ["method_a", "method_b"], sort=False
        ):
            against.append([m for m in others if pair["winner"][m] * pair["winner"][flat_one] < 0])
            if len(against[-1]) == len(others):
                first, second = (a, b) if pair["winner"][flat_one] > 0 else (b, a)
                counted = np.sort(pair.loc[list(SIGN), ["losses", "wins"]].to_numpy(int), axis=1)
                won = (f"{more} : {less}" for less, more in counted)
                rows.append(f"| {dataset} | {first} | {second} | {' | '.join(won)} |")
        counts.append(
            [
                dataset,
                sum(map(bool, against)),
                *(sum(m in found for found in against) for m in others),
            ]
        )
    total = sum(count[1] for count in counts)
    return [
        "Micro sign tests over instances (Yang & Liu 1999), with Holm's correction over all "
        "pairs and measures of a dataset.",
        f"Of {n_pairs} pairs of systems, {total} are ordered one way by {flat_one} and the other "
        "way by a hierarchical measure,",
        f"both significantly at {ALPHA:g}:",
        "",
        f"| dataset | any | {' | '.join(others)} |",
        "|---" * (len(others) + 2) + "|",
        *(f"| {' | '.join(map(str, count))} |" for count in counts),
        "",
        f"Those that {', '.join(others[:-1])} and {others[-1]} all order the other way, and on "
        "how many instances either system",
        "is better:",
        "",
        f"| dataset | better by {flat_one} | better by the others | {' | '.join(SIGN)} |",
        "|---" * (len(SIGN) + 3) + "|",
        *rows,
        "",
    ]


def findings(study: mleval.Study, sizes: list[str]) -> str:
    (taus, tau), (fusions, order) = agreement(study), fused(study)
    between, within = (
        tau.loc[list(FLAT), list(HIERARCHICAL)],
        tau.loc[list(HIERARCHICAL), list(HIERARCHICAL)],
    )
    within = within.where(np.triu(np.ones(within.shape, bool), 1))
    moved = (order["sixteen"]["all"] - order["class-sets"]["all"]).abs()
    most = ", ".join(moved[moved == moved.max()].index)
    said = "{:.2f} on average (from {:.2f} to {:.2f})"
    of_both, of_one = (
        said.format(part.stack().mean(), part.min().min(), part.max().max())
        for part in (between, within)
    )
    lines = [
        "# Do flat and hierarchical measures agree about systems?",
        "",
        ABOUT,
        *sizes,
        "",
        SYSTEMS_IN_WORDS,
        "## Measures and ranks",
        "",
        *values(study),
        "## Rankings compared",
        "",
        "Kendall's τ between the rankings by two measures, the mean over datasets. Between a "
        "flat and a hierarchical measure it",
        f"is {of_both}, between two hierarchical ones {of_one}.",
        "",
        *taus,
        "## The fused rankings",
        "",
        "Ranks by the sixteen flat measures → by the class sets (`mleval rank -m sixteen`, `-m "
        "class-sets`). Over all datasets",
        f"{(moved > 0).sum()} of {len(moved)} systems change places, by {moved.max():g} at most "
        f"({most}).",
        "",
        *fusions,
        "## Where they contradict each other",
        "",
        *signs(study),
    ]
    return "\n".join(lines)


def main(folder: str | None, names: list[str]) -> None:
    if folder is None:
        sets, experiment = list(made_sets()), "hierarchical_study (made)"
    else:
        sets, experiment = (
            [read_clus(Path(folder), name) for name in names or DATASETS],
            "hierarchical_study",
        )
    train(sets, experiment)
    ask(experiment)
    sizes = [
        "| dataset | training | test | classes | with several parents | classes an instance |",
        "|---|---|---|---|---|---|",
    ]
    for d in sets:
        several = sum(len(own) > 1 for own in d.parents)
        cells = (
            d.name,
            len(d.Y),
            len(d.Y_test),
            len(d.parents),
            several,
            f"{d.Y_test.sum(axis=1).mean():.2f}",
        )
        sizes.append(f"| {' | '.join(map(str, cells))} |")
    measures = expand(["sixteen", "class-sets", *HIERARCHICAL])
    study = mleval.load_study(
        experiment_names=[experiment], measures=measures, datasets=[d.name for d in sets]
    )
    text = findings(study, sizes)
    Path("hierarchical_study.md").write_text(
        text if folder is None or names else f"{text}\n{NOTES}", encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None, sys.argv[2:])
