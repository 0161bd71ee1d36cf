"""The surrogate study: a nearest-neighbour minimiser trained for each loss and measured by all, one
run a surrogate.

Hüllermeier et al. 2022, section 6 and Figure 4. The rows of the table surrogate x target are the
loss profiles that the runs hold: the table is always read from the runs, by the process that made
them or by another one.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click
import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.tracking.fluent import _get_experiment_id
from mlflow.utils.autologging_utils import disable_autologging
from scipy import sparse, stats
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_array, check_consistent_length

from mlflow_mleval.analysis.folds.covariance import variance_factor
from mlflow_mleval.errors import IncomparableRunsError, NoRunsError
from mlflow_mleval.evaluation import evaluate
from mlflow_mleval.measures.capacities import MAX_CANDIDATES, NearestNeighbourMinimiser
from mlflow_mleval.measures.dependence import family_weights
from mlflow_mleval.report.blocks import ALWAYS, Column, Figure, Section, Table, Text, joined, name
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.html import standalone
from mlflow_mleval.report.svg import SMALL, WIDTH, Svg, text_width
from mlflow_mleval.report.text import aligned, fixed, level, markdown, number, terminal
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.store.study_artifacts import load_profiles
from mlflow_mleval.training.log_evaluation import log_evaluation
from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    binary_matrix,
    one_of,
    present,
    probability,
    refuse_keywords,
)
from mlflow_mleval.words import count, inside, some

if TYPE_CHECKING:
    from typing_extensions import Unpack

# --------------------------------------------------------------------------------------------------
# Which loss to minimise while training for which loss in the end: the best surrogate per target,
# and how sure that is.

#: Losses that differ by less are equal: sums of the same losses in another order do.
_NOISE = 1e-12


def best_surrogates(
    by_fold: pd.DataFrame,
    *,
    ratio: float | None = None,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """The surrogate of least mean loss for each target, and the surrogates that the folds do not
    separate from the best.

    A surrogate is separated where some other one is better by a one-sided paired t test over the
    folds, corrected for training data that folds share (Nadeau & Bengio 2003) and for the number of
    other surrogates (Bonferroni). So for each target the surrogate that is truly best is among
    those not separated with a probability of at least 1 - alpha, even though the one of least mean
    was chosen by these same folds. Where a difference is the same on every fold its uncertainty is
    not known, and it separates nothing.

    `by_fold` has the index (surrogate, fold) and a column a target; `ratio` is n_test / n_train of
    a fold, by default that of one cross-validation, 1 / (R - 1); `alpha` is for each target. The
    result is that of ``SurrogateStudy.best``: of equals ``surrogate`` is the first; with fewer than
    two folds all are ``not_separated``.

    >>> folds = pd.MultiIndex.from_product([[1, 2], range(4)], names=["surrogate", "fold"])
    >>> losses = pd.DataFrame({1: [.1, .2, .1, .2, .3, .5, .4, .5], 2: [.5, .6, .7, .8, .6, .5, .8, .7]}, index=folds)
    >>> best_surrogates(losses)[["surrogate", "not_separated"]].values.tolist()
    [[1, (1,)], [1, (1, 2)]]
    """  # noqa: E501
    probability(alpha, "alpha")
    surrogates = list(dict.fromkeys(by_fold.index.get_level_values(0)))
    folds = list(dict.fromkeys(by_fold.index.get_level_values(1)))
    whole = by_fold.reindex(pd.MultiIndex.from_product([surrogates, folds]))
    if len(whole) != len(by_fold) or not np.isfinite(whole.to_numpy(dtype=float)).all():
        raise ValueError(
            f"`by_fold` must hold a finite loss of every surrogate on each of the {len(folds)} "
            "folds."
        )
    losses = whole.to_numpy(dtype=float).reshape(len(surrogates), len(folds), -1)
    names = np.array(surrogates, dtype=object)
    rows = []
    for target, at in enumerate(by_fold.columns):
        mean = losses[:, :, target].mean(axis=1)
        best = int(np.argmax(mean <= mean.min() + _NOISE))
        equal = names[mean <= mean.min() + _NOISE]
        rivals = names[~_separated(losses[:, :, target], ratio, alpha)]
        rows.append((at, surrogates[best], float(mean[best]), tuple(equal), tuple(rivals)))
    columns = ["target", "surrogate", "loss", "equal", "not_separated"]
    return pd.DataFrame(rows, columns=columns).set_index("target")


def _separated(losses: AnyArray, ratio: float | None, alpha: float) -> AnyArray:
    """Whether some other surrogate is significantly better than each, from losses of shape
    (surrogates, folds).
    """
    count, n_folds = losses.shape
    if n_folds < 2 or count < 2:
        return np.zeros(count, dtype=bool)
    difference = losses[:, None] - losses[None]
    deviation = difference.std(axis=2, ddof=1)
    error = deviation * np.sqrt(
        variance_factor(n_folds, 1 / (n_folds - 1) if ratio is None else ratio)
    )
    certain = deviation > _NOISE
    statistic = np.where(certain, difference.mean(axis=2) / np.where(certain, error, 1), -np.inf)
    return stats.t.sf(statistic.max(axis=1), n_folds - 1) * (count - 1) <= alpha


# --------------------------------------------------------------------------------------------------
# Which surrogate to train for which target: how far each surrogate falls behind the best
# (Hüllermeier et al. 2022, Figure 4).

#: The largest cell, the smallest that still holds its number, and the most rows and columns.
CELL = 40
READABLE = 18
MOST = 100
#: Colour of the best; a difference of `clip` and more has none.
STRONGEST = 0.48
#: Where the cells begin, and what is written above and below them.
_TOP = 44
_AXES = "→ surrogate: k of the loss that was trained    ↓ target: k of the loss that counts"
_UNIT = "behind the best, in thousandths"


def surrogate_differences(table: pd.DataFrame) -> pd.DataFrame:
    """Target x surrogate: how much larger the loss is than that of the best surrogate, from losses
    surrogate x target.
    """
    behind = (table - table.min()).T
    return behind.mask(behind <= _NOISE, 0.0)


def surrogate_heatmap(
    table: pd.DataFrame,
    clip: float = 0.02,
    title: str = "Surrogate and target losses",
) -> Svg:
    """A row a target, a column a surrogate: the stronger the colour, the nearer to the best
    surrogate for that target.

    Cells say the difference to the best in thousandths, the best of a row is framed; cells that
    fall behind by `clip` or more are left empty. Beyond 100 rows and columns, that many of them are
    drawn at even distances. The table has losses, a row a surrogate and a column a target.
    """
    behind = surrogate_differences(table)
    best = {t: [s for s in behind if behind.loc[t, s] == 0] for t in behind.index}
    words = "; ".join(f"target {t}: surrogate {', '.join(map(str, s))}" for t, s in best.items())
    skip = -(-max(behind.shape) // MOST)
    drawn = behind.iloc[::skip, ::skip]
    left = 30 + max(text_width(str(t), SMALL) for t in drawn.index)
    cell = min(CELL, (WIDTH - left - 2) / drawn.shape[1])
    size = cell - (cell > 8)
    foot = _TOP + cell * drawn.shape[0]
    svg = Svg(title, f"Best surrogate for each target: {words}.", foot + 44)
    svg.text(0, 13, _AXES, "strong")
    widest = 6 + max(text_width(str(k), SMALL) for k in (*drawn.index, *drawn.columns))
    every = math.ceil(widest / cell)
    for j, surrogate in list(enumerate(drawn))[::every]:
        svg.text(left + cell * (j + 0.5), 36, surrogate, "muted small", "middle")
    for i, (target, row) in enumerate(drawn.iterrows()):
        y = _TOP + cell * i
        if i % every == 0:
            svg.text(left - 6, y + cell / 2 + 4, target, "muted small", "end")
        for j, (surrogate, difference) in enumerate(row.items()):
            share = difference / clip if difference < clip - _NOISE else 1
            text = fixed(1000 * difference, 0) if share < 1 and cell >= READABLE else ""
            loss = number(table.loc[surrogate, target])
            tip = (
                f"target k = {target}, surrogate k = {surrogate}: loss {loss}, "
                f"{number(difference, 3)} behind the best"
            )
            _swatch(svg, (left + cell * j, y, size, size), share, text, tip)
    _scale(svg, left, foot + 12, clip)
    return svg


def _swatch(
    svg: Svg,
    box: tuple[float, float, float, float],
    share: float,
    text: str,
    tip: str = "",
) -> None:
    """A rectangle in the colour of a difference, given as a share of what is clipped, and a text in
    it; framed where there is none.
    """
    x, y, width, height = box
    clipped = share == 1
    opacity = 0.5 if clipped else max(STRONGEST * (1 - share), 0.04)
    svg.rect(*box, "fpale" if clipped else "faccent", fill_opacity=opacity, tip=tip)
    if text:
        middle = x + width / 2, y + height / 2 + 4
        svg.text(*middle, text, "small", "middle", pointer_events="none")
    if share == 0:
        svg.rect(x + 1, y + 1, width - 2, height - 2, "sep", pointer_events="none")


def _scale(svg: Svg, x: float, y: float, clip: float) -> None:
    """What the colours are, from the best to what is clipped."""
    svg.text(x, y + 12, _UNIT, "muted small")
    start = x + text_width(_UNIT, SMALL) + 10
    for i, share in enumerate((0, 0.25, 0.5, 0.75, 1)):
        value = f"{'≥ ' if share == 1 else ''}{number(1000 * clip * share, 3)}"
        _swatch(svg, (start + 48 * i, y, 46, 18), share, value)


# --------------------------------------------------------------------------------------------------
# A surrogate study as a document: the heatmap, the best surrogate per target in words and as a
# table, and all of it as data.

#: Rows of the table for readers, and groups of targets that are named; the others are counted.
_ROWS = 60
_SHOWN = 8


def surrogate_sentences(study: Any) -> list[str]:
    """What the study found: the best surrogate by target, and of how much of that the folds are
    sure.
    """
    losses = study.losses
    best = study.best
    n_folds = study.n_folds
    groups = [(ks, list(ts)) for ks, ts in groupby(best.index, key=lambda t: best.loc[t, "equal"])]
    parts = [f"k = {_spans(ks)}{' alike' * (len(ks) > 1)} for {_targets(ts)}" for ks, ts in groups]
    if len(parts) > _SHOWN:
        parts[_SHOWN - 1 :] = [f"{len(parts) - _SHOWN + 1} more"]
    sentences = [f"The surrogate of least mean loss is {joined(parts)}."]
    if losses.shape[0] < 2:
        return sentences
    if n_folds < 2:
        return [*sentences, "Without several folds nothing can be said about how sure that is."]
    beaten = [t for t in best.index if t in losses.index and t not in best.loc[t, "not_separated"]]
    who, where = ("some other", f" for {_targets(beaten)}") if beaten else ("no", "")
    counts = best["not_separated"].map(len)
    low = int(counts.min())
    high = int(counts.max())
    few = str(low) if low == high else f"{low} to {high}, depending on the target,"
    return [
        *sentences,
        f"Over {count(n_folds, 'fold')} (α = {level(study.alpha)} for each target), "
        f"{who} surrogate is shown to be better than the target's own loss{where}.",
        f"Of {count(len(losses), 'surrogate')}, {few} may be the best.",
    ]


def surrogate_frame(losses: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """One row a surrogate and target: loss, difference to the best one, whether it is the best, and
    not separated from it.
    """
    behind = surrogate_differences(losses)
    rows = [
        (k, t, v, behind.loc[t, k], k in best.loc[t, "equal"], k in best.loc[t, "not_separated"])
        for k, row in losses.iterrows()
        for t, v in row.items()
    ]
    return pd.DataFrame(
        rows, columns=["surrogate", "target", "loss", "difference", "best", "not_separated"]
    )


def surrogate_document(study: Any) -> Document:
    """The study as a document."""
    best = study.best
    n_folds = study.n_folds
    about = (
        f"{len(study.losses)} surrogates, {study.losses.shape[1]} targets, {n_folds} folds, "
        f"{study.n_neighbors} nearest neighbours; runs of the experiment {study.experiment}"
    )
    caption = (
        "Each row is a loss that counts, each column a loss that was minimised over the "
        "neighbours: from the Hamming loss (k = 1) to the subset 0/1 loss (k = K)."
    )
    drawn = best.iloc[:_ROWS]
    columns = [
        Column("target k", [*map(str, drawn.index)]),
        Column("best surrogate k", [*map(_spans, drawn["equal"])]),
        Column("its loss ↓", aligned(drawn["loss"])),
        Column("not separated from the best", [*map(_spans, drawn["not_separated"])], "<"),
    ]
    blocks = [
        Text(surrogate_sentences(study), role="lead", depth=ALWAYS),
        Figure(study.heatmap, caption),
        Table(
            columns,
            len(best),
            title="Best surrogate by target",
            key="surrogates",
            things="targets",
            depth=ALWAYS,
        ),
        *(
            [Text(study.warnings, role="points", title="Doubts", depth=ALWAYS)]
            if study.warnings
            else []
        ),
    ]
    frame = surrogate_frame(study.losses, best)
    content = {
        "dataset": study.dataset,
        "losses": frame,
        "n_folds": n_folds,
        "alpha": study.alpha,
        "warnings": study.warnings,
    }
    return Document(
        f"Surrogate study: {name(study.dataset)}",
        [Section("surrogates", "Which loss to train for which target", blocks)],
        about=about,
        data=lambda: content,
        frames=lambda: {"surrogates": frame},
        main="surrogates",
    )


def _targets(targets: Sequence[int]) -> str:
    return f"target{'s' * (len(targets) > 1)} {_spans(targets)}"


def _spans(numbers: Sequence[int]) -> str:
    """Whole numbers with neighbours joined: 1–3, 5, 7, 8."""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][-1] + 1:
            spans[-1].append(n)
        else:
            spans.append([n])
    return ", ".join(f"{s[0]}–{s[-1]}" if len(s) > 2 else ", ".join(map(str, s)) for s in spans)


#: Differences from which on Figure 4 of the paper tells nothing apart.
CLIP = 0.02
_METHOD = "surrogate k="


@dataclass(frozen=True, eq=False)
class SurrogateStudy:
    """What training for each loss gives by every loss.

    Attributes
    ----------
    losses : Surrogate k (index) x target k (columns): mean binomial losses over folds, in [0, 1]; 0 is best.
    by_fold : The same by fold: index (surrogate, fold).
    best : By target: ``surrogate`` (of least mean loss), ``loss``, ``equal`` (the surrogates of that mean loss) and
        ``not_separated`` (those that may be the best).
    alpha : For each target, the largest probability that the truly best surrogate is missing from ``not_separated``.
    runs : By surrogate: the id of its run.
    """  # noqa: E501

    dataset: str
    losses: pd.DataFrame
    by_fold: pd.DataFrame
    best: pd.DataFrame
    n_neighbors: int
    alpha: float
    runs: Mapping[int, str]
    experiment: str
    warnings: tuple[str, ...] = ()

    @property
    def n_folds(self) -> int:
        return self.by_fold.index.get_level_values("fold").nunique()

    @property
    def sentences(self) -> list[str]:
        """What the study found, in words."""
        return surrogate_sentences(self)

    def differences(self, to: str = "best", clip: float | None = CLIP) -> pd.DataFrame:
        """How much larger each loss is than that of the best surrogate for the target, or of the
        target's own surrogate.

        `to` is "best" or "diagonal", where a negative difference is a surrogate that serves the
        target better than the target does. Differences beyond `clip` count as this; .02 as in
        Figure 4 of the paper.
        """
        if one_of(to, "to", ("best", "diagonal")) == "best":
            behind = surrogate_differences(self.losses).T
        else:
            behind = self.losses - pd.Series(
                {k: self.losses[k].get(k, np.nan) for k in self.losses}
            )
        return behind if clip is None else behind.clip(-clip, clip)

    def save(self, folder: str | Path) -> list[Path]:
        """Write ``surrogates.html``, ``surrogates.svg`` (the heatmap) and ``surrogates.csv`` into a
        folder, made if need be.
        """
        files = {inside(folder, name): content for name, content in self.files().items()}
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            path.write_text(content, encoding="utf-8", newline="")
        return list(files)

    def files(self) -> dict[str, str]:
        """Name to content of what `save` writes."""
        page = self.report()
        texts = page.to_html(), standalone(self.heatmap), page.render("csv")
        return dict(
            zip(("surrogates.html", "surrogates.svg", "surrogates.csv"), texts, strict=True)
        )

    def report(self) -> Document:
        """What the study found as a document: to_html(path), to_markdown(), to_latex(), to_dict();
        a notebook shows it.
        """
        return surrogate_document(self)

    @property
    def heatmap(self) -> Svg:
        """The differences to the best surrogate as a picture."""
        return surrogate_heatmap(self.losses, CLIP, f"Surrogate and target losses: {self.dataset}")


def surrogate_study(
    X: Any,
    Y: Any,
    *,
    dataset: str,
    experiment_name: str | None = None,
    ks: Iterable[int] | None = None,
    label_names: Sequence[Hashable] | None = None,
    progress: bool | None = None,
    **design: Unpack[Design],
) -> SurrogateStudy:
    """Train for every binomial loss, measure by every binomial loss: which surrogate is best for
    which target.

    For each fold, `NearestNeighbourMinimiser` predicts the label sets of least binomial loss k over
    the nearest neighbours, for all k together. Each k becomes a run of method ``surrogate k=…``
    whose loss profile is a row of the table; a run of kind report holds the heatmap. Runs that are
    complete are not trained again: called again with the same arguments, an interrupted study goes
    on where it stopped.

    Parameters
    ----------
    X : array, shape (N, F)
        Distances are sums of absolute differences of the features as they are: scale them before.
    Y : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K)
    dataset, experiment_name : str
        Their names. The experiment is made if it does not exist; by default the one that MLflow is
        set to.
    ks : iterable of int, optional
        Surrogates to train, of 1..K; by default all. Targets are always all.
    label_names : sequence of K names, optional
        By default the columns of a DataFrame, else 0..K-1.
    progress : bool, optional
        Show a progress bar on standard error; by default where that is a terminal.
    cv : int, splitter or iterable of (train, test)
        A number of folds, by default 10, shuffles the rows by ``seed``, by default 0.
    n_neighbors : int
        By default 9, as in the paper.
    max_candidates : int
        As in `NearestNeighbourMinimiser`.

    Returns
    -------
    SurrogateStudy
        Of all surrogates that the runs hold.

    Raises
    ------
    ValueError
        Labels other than 0 and 1, other numbers of rows, surrogates out of range, fewer instances
        than neighbours, too many label sets to compare.
    IncomparableRunsError
        The experiment holds runs of a study of that name on other labels, features or folds, or
        with another number of neighbours. Nothing was trained then.
    StoreError
    """
    refuse_keywords(surrogate_study, design, _DESIGN)
    runs.check(dataset=dataset)
    data = _data(X, Y, label_names, _DESIGN | design)
    n_labels = data.truth.shape[1]
    ks = list(range(1, n_labels + 1) if ks is None else ks)
    family_weights("binomial", n_labels, ks)  # refuses bad ones before the work
    ks = sorted({int(k) for k in ks})
    client = store.connect(create=True)
    if experiment_name is None:
        with store.quick(), store.store_errors("read"):
            experiment_name = client.get_experiment(present(_get_experiment_id())).name
    held = _held(client, store.ensure_experiment(client, experiment_name), dataset)
    _refuse_other(held, dataset, data.identity)
    missing = [k for k in ks if k not in held or not _complete(held[k])]
    if missing:
        hidden = not (sys.stderr.isatty() if progress is None else progress)
        label = terminal(f"surrogates for {dataset}")
        with click.progressbar(
            length=len(data.splits) + len(missing),
            label=label,
            file=sys.stderr,
            hidden=hidden,
        ) as bar:
            for k, predicted in zip(missing, _predictions(data, missing, bar.update), strict=True):
                run_id = held[k].info.run_id if k in held else None
                _log(data, k, predicted, dataset, experiment_name, run_id)
                bar.update(1)
    study = load_surrogate_study(experiment_name, dataset)
    _log_report(client, study)
    return study


class Design(TypedDict, total=False):
    """How surrogates are trained, see `surrogate_study`."""

    cv: Any
    seed: int
    n_neighbors: int
    max_candidates: int


_DESIGN: dict[str, Any] = {
    "cv": 10,
    "seed": 0,
    "n_neighbors": 9,
    "max_candidates": MAX_CANDIDATES,
}


@dataclass(frozen=True, eq=False)
class _Data:
    """What a study is made of: features, labels and their names, folds and the learner."""

    X: Array
    truth: Bools
    names: list[Hashable]
    splits: list[tuple[Ints, Ints]]
    minimiser: NearestNeighbourMinimiser

    @property
    def tests(self) -> list[Ints]:
        return [test for _, test in self.splits]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What tells the study from others."""
        rows = [np.sort(part).tolist() for split in self.splits for part in split]
        return {
            "labels": _labels_digest(self.names, self.truth),
            "features": sha256(repr(self.X.shape).encode() + self.X.tobytes()).hexdigest(),
            "folds": sha256(repr(rows).encode()).hexdigest(),
            "n_neighbors": int(self.minimiser.n_neighbors),
        }


def _data(
    X: Any,
    Y: Any,
    label_names: Sequence[Hashable] | None,
    design: Mapping[str, Any],
) -> _Data:
    """Checked features and labels, with their folds."""
    X = check_array(X, dtype=np.float64, input_name="X")
    check_consistent_length(X, Y)
    truth = binary_matrix(Y, "Y")
    truth = truth.toarray() if sparse.issparse(truth) else truth
    own = getattr(Y, "columns", range(truth.shape[1])) if label_names is None else label_names
    cv = design["cv"]
    is_number = np.isscalar(cv)
    splitter = KFold(cv, shuffle=True, random_state=design["seed"]) if is_number else check_cv(cv)
    minimiser = NearestNeighbourMinimiser(
        design["n_neighbors"], max_candidates=design["max_candidates"]
    )
    return _Data(X, truth, list(own), list(splitter.split(X, truth)), minimiser)


def _log(
    data: _Data,
    k: int,
    predicted: Bools,
    dataset: str,
    experiment_name: str,
    run_id: str | None,
) -> None:
    """The run of a surrogate, begun before or not."""
    width = len(str(data.truth.shape[1]))
    ev = evaluate(
        data.truth[np.concatenate(data.tests)],
        y_pred=predicted,
        label_names=data.names,
        folds=np.repeat(np.arange(len(data.splits)), list(map(len, data.tests))),
        instances=False,
    )
    log_evaluation(
        ev,
        method=f"{_METHOD}{k:0{width}d}",
        dataset=dataset,
        run_id=run_id,
        experiment_name=None if run_id else experiment_name,
        test_indices=data.tests,
        n_train=[len(train) for train, _ in data.splits],
        tags={schema.TAG_SURROGATE: json.dumps({"k": k} | data.identity)},
    )


def load_surrogate_study(
    experiment_name: str,
    dataset: str,
    *,
    alpha: float = 0.05,
) -> SurrogateStudy:
    """The surrogate study of a dataset from the runs that an experiment holds; for `alpha` see
    `SurrogateStudy`.

    Raises
    ------
    NoRunsError
        There is no such experiment, or it holds no complete run of a study of that dataset.
    IncomparableRunsError
        The runs are of different data, folds or numbers of neighbours.
    StoreError
    """
    client = store.connect()
    (experiment,) = store.find_experiments(client, None, [experiment_name])
    held = {
        k: run
        for k, run in _held(client, experiment.experiment_id, dataset).items()
        if _complete(run) and _identity(run)
    }
    if not held:
        raise NoRunsError(
            f"the experiment {experiment_name!r} in {store.store_name()} holds no complete run "
            f"of a surrogate study of {dataset!r}. Make them: mleval.surrogate_study(X, Y, "
            f"dataset={dataset!r})."
        )
    identity, *others = map(_identity, held.values())
    if any(other != identity for other in others):
        raise IncomparableRunsError(
            f"the runs of the surrogate study of {dataset!r} in {experiment_name!r} are of "
            "different data, folds or numbers of neighbours. Delete those that do not belong to "
            "it."
        )
    surrogates = {run.data.tags[schema.TAG_METHOD]: k for k, run in held.items()}
    profiles = load_profiles(
        experiment_ids=[experiment.experiment_id],
        run_ids=[run.info.run_id for run in held.values()],
    )
    targets = range(1, profiles.n_labels[dataset] + 1)
    losses = profiles.losses(dataset, parameters=targets).rename(index=surrogates).sort_index()
    by_fold = profiles.by_fold(dataset, parameters=targets)
    by_fold = by_fold.rename(index=surrogates, level=0).sort_index()
    # some run had no room for its folds
    if by_fold.index.get_level_values(0).nunique() < len(losses):
        by_fold = pd.concat({0: losses}).swaplevel()
    losses.index.name = "surrogate"
    losses.columns.name = "target"
    by_fold.index.names = ["surrogate", "fold"]
    by_fold.columns.name = "target"
    n_train, n_test = profiles.runs.iloc[0][["n_train", "n_test"]]
    ratio = sum(n_test) / sum(n_train) if n_train else None
    best = best_surrogates(by_fold, ratio=ratio, alpha=alpha)
    ids = {k: run.info.run_id for k, run in held.items()}
    warnings = (*profiles.notes, *(f"{name}: {why}." for name, why in profiles.absent.items()))
    return SurrogateStudy(
        dataset,
        losses,
        by_fold,
        best,
        identity["n_neighbors"],
        alpha,
        ids,
        experiment_name,
        warnings,
    )


def _labels_digest(names: Sequence[Hashable], truth: Bools) -> str:
    """SHA-256 of the labels' names and of which of them each instance has, in the order of the
    rows, as that of features is.
    """
    counts = truth.sum(axis=1).astype("<i8")
    columns = np.nonzero(truth)[1].astype("<i8")
    digest = sha256(repr((tuple(map(str, names)), len(truth))).encode("utf-8", "surrogatepass"))
    digest.update(sha256(counts.tobytes()).digest() + sha256(columns.tobytes()).digest())
    return digest.hexdigest()


def _predictions(data: _Data, ks: Sequence[int], step: Callable[[int], None]) -> Bools:
    """Label sets of the test rows of all folds, one after the other, for each k."""
    n_tested = sum(map(len, data.tests))
    predicted = np.empty((len(ks), n_tested, data.truth.shape[1]), dtype=bool)
    start = 0
    for train, test in data.splits:
        with disable_autologging():  # MLflow's own would make a run of each search for neighbours
            fitted = data.minimiser.fit(data.X[train], data.truth[train])
            predicted[:, start : start + len(test)] = fitted.predict_all(data.X[test], ks)
        start += len(test)
        step(1)
    return predicted


def _held(client: MlflowClient, experiment_id: str, dataset: str) -> dict[int, Run]:
    """Runs of a study by surrogate; of several the latest, one that is complete if there is one."""
    by_surrogate = {}
    started = store.search(client, [experiment_id], f"tags.`{schema.TAG_METHOD}` LIKE '{_METHOD}%'")
    for run in sorted(started, key=lambda r: (_complete(r), r.info.start_time, r.info.run_id)):
        k = run.data.tags[schema.TAG_METHOD].removeprefix(_METHOD)
        if run.data.tags.get(schema.TAG_DATASET) == dataset and k.isdecimal():
            by_surrogate[int(k)] = run
    return dict(sorted(by_surrogate.items()))


def _complete(run: Run) -> bool:
    return run.data.tags.get(schema.TAG_STATUS) == schema.COMPLETE


def _identity(run: Run) -> dict[str, Any]:
    """What tells the study of the run from others: digests of labels, features and folds, and the
    number of neighbours.
    """
    try:
        written = json.loads(run.data.tags[schema.TAG_SURROGATE])
        return {name: value for name, value in written.items() if name != "k"}
    except (KeyError, ValueError, AttributeError):
        return {}


def _refuse_other(held: Mapping[int, Run], dataset: str, identity: Mapping[str, Any]) -> None:
    """Raise where runs of that name are of another study; what was killed before its tags were
    written is of none.
    """
    for run in held.values():
        theirs = _identity(run)
        if (theirs or _complete(run)) and theirs != identity:
            other = [name for name, value in identity.items() if theirs.get(name) != value]
            raise IncomparableRunsError(
                f"the experiment holds runs of a surrogate study of {dataset!r} with other "
                f"{some(other)}, such as {run.info.run_id}. Choose another name of the dataset "
                "or another experiment, or delete these runs."
            )


def _log_report(client: MlflowClient, study: SurrogateStudy) -> None:
    """The heatmap as a run of kind report, unless there is one of just these runs."""
    experiment_id = present(client.get_experiment_by_name(study.experiment)).experiment_id
    digest = sha256(json.dumps(sorted(study.runs.values())).encode()).hexdigest()
    reported = store.having(client, [experiment_id], schema.TAG_SURROGATE, digest)
    if any(run.info.status == "FINISHED" for run in reported):
        return
    page, *files = study.files().items()
    runs.log_report(
        {
            schema.ARTIFACT_REPORT: page[1],
            **{f"{schema.ARTIFACT_FOLDER}/{name}": content for name, content in files},
        },
        experiment_id=experiment_id,
        run_name=f"surrogates for {study.dataset}",
        summary="\n\n".join(map(markdown, study.sentences)),
        tags={schema.TAG_SURROGATE: digest, schema.TAG_DATASET: study.dataset},
    )
