"""The surrogate study: a nearest-neighbour minimiser trained for each loss and measured by all, one
run a surrogate.

Hüllermeier et al. 2022, section 6 and Figure 4. The rows of the table surrogate x target are the
loss profiles that the runs hold: the table is always read from the runs, by the process that made
them or by another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.tracking.fluent import _get_experiment_id
from mlflow.utils.autologging_utils import disable_autologging
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_array, check_consistent_length

from mlflow_mleval.errors import IncomparableRunsError, NoRunsError
from mlflow_mleval.evaluation import evaluate
from mlflow_mleval.measures.dependence import family_weights
from mlflow_mleval.measures.minimisers import MAX_CANDIDATES, NearestNeighbourMinimiser
from mlflow_mleval.naming import inside, some
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.escape import markdown, terminal
from mlflow_mleval.report.html import standalone
from mlflow_mleval.report.svg import Svg
from mlflow_mleval.surrogate.best import best_surrogates
from mlflow_mleval.surrogate.heatmap import surrogate_differences, surrogate_heatmap
from mlflow_mleval.surrogate.report import surrogate_document, surrogate_sentences
from mlflow_mleval.tracking import reports, runs, schema, store
from mlflow_mleval.tracking.read_profiles import load_profiles
from mlflow_mleval.training.log_evaluation import log_evaluation
from mlflow_mleval.validation import binary_matrix, one_of

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
            found = surrogate_differences(self.losses).T
        else:
            found = self.losses - pd.Series({k: self.losses[k].get(k, np.nan) for k in self.losses})
        return found if clip is None else found.clip(-clip, clip)

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
        found = self.report()
        texts = found.to_html(), standalone(self.heatmap), found.render("csv")
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
    cv: Any = 10,
    n_neighbors: int = 9,
    ks: Iterable[int] | None = None,
    label_names: Sequence[Hashable] | None = None,
    experiment_name: str | None = None,
    seed: int = 0,
    max_candidates: int = MAX_CANDIDATES,
    progress: bool | None = None,
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
    cv : int, splitter or iterable of (train, test)
        A number of folds shuffles the rows by ``seed``.
    n_neighbors : int
        9 in the paper.
    ks : iterable of int, optional
        Surrogates to train, of 1..K; by default all. Targets are always all.
    label_names : sequence of K names, optional
        By default the columns of a DataFrame, else 0..K-1.
    max_candidates : int
        As in `NearestNeighbourMinimiser`.
    progress : bool, optional
        Show a progress bar on standard error; by default where that is a terminal.

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
    runs.check(dataset=dataset)
    X = check_array(X, dtype=np.float64, input_name="X")
    check_consistent_length(X, Y)
    truth = binary_matrix(Y, "Y")
    truth = truth.toarray() if sparse.issparse(truth) else truth
    n_labels = truth.shape[1]
    names = list(label_names if label_names is not None else getattr(Y, "columns", range(n_labels)))
    ks = list(range(1, n_labels + 1) if ks is None else ks)
    family_weights("binomial", n_labels, ks)  # refuses bad ones before the work
    ks = sorted({int(k) for k in ks})
    splitter = KFold(cv, shuffle=True, random_state=seed) if np.isscalar(cv) else check_cv(cv)
    splits = list(splitter.split(X, truth))
    tests = [test for _, test in splits]
    rows = [np.sort(part).tolist() for split in splits for part in split]
    identity = {
        "labels": _labels_digest(names, truth),
        "features": sha256(repr(X.shape).encode() + X.tobytes()).hexdigest(),
        "folds": sha256(repr(rows).encode()).hexdigest(),
        "n_neighbors": int(n_neighbors),
    }

    client = store.connect(create=True)
    if experiment_name is None:
        with store.quick(), store.store_errors("read"):
            experiment_name = client.get_experiment(_get_experiment_id()).name
    held = _held(client, store.ensure_experiment(client, experiment_name), dataset)
    _refuse_other(held, dataset, identity)
    missing = [k for k in ks if k not in held or not _complete(held[k])]
    if missing:
        hidden = not (sys.stderr.isatty() if progress is None else progress)
        label = terminal(f"surrogates for {dataset}")
        with click.progressbar(
            length=len(splits) + len(missing), label=label, file=sys.stderr, hidden=hidden
        ) as bar:
            minimiser = NearestNeighbourMinimiser(n_neighbors, max_candidates=max_candidates)
            predictions = _predictions(minimiser, X, truth, splits, missing, bar.update)
            fold = np.repeat(np.arange(len(splits)), list(map(len, tests)))
            for k, predicted in zip(missing, predictions, strict=True):
                ev = evaluate(
                    truth[np.concatenate(tests)],
                    y_pred=predicted,
                    label_names=names,
                    folds=fold,
                    instances=False,
                )
                begun = held[k].info.run_id if k in held else None
                log_evaluation(
                    ev,
                    method=f"{_METHOD}{k:0{len(str(n_labels))}d}",
                    dataset=dataset,
                    run_id=begun,
                    experiment_name=None if begun else experiment_name,
                    test_indices=tests,
                    n_train=[len(train) for train, _ in splits],
                    tags={schema.TAG_SURROGATE: json.dumps({"k": k} | identity)},
                )
                bar.update(1)
    found = load_surrogate_study(experiment_name, dataset)
    _log_report(client, found)
    return found


def load_surrogate_study(
    experiment_name: str, dataset: str, *, alpha: float = 0.05
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
    by_fold = (
        profiles.by_fold(dataset, parameters=targets).rename(index=surrogates, level=0).sort_index()
    )
    if by_fold.index.get_level_values(0).nunique() < len(
        losses
    ):  # some run had no room for its folds
        by_fold = pd.concat({0: losses}).swaplevel()
    losses.index.name, losses.columns.name = "surrogate", "target"
    by_fold.index.names, by_fold.columns.name = ["surrogate", "fold"], "target"
    n_train, n_test = profiles.runs.iloc[0][["n_train", "n_test"]]
    ratio = sum(n_test) / sum(n_train) if n_train else None
    best, ids = (
        best_surrogates(by_fold, ratio=ratio, alpha=alpha),
        {k: run.info.run_id for k, run in held.items()},
    )
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


def _labels_digest(names: Sequence[Hashable], truth: NDArray[np.bool_]) -> str:
    """SHA-256 of the labels' names and of which of them each instance has, in the order of the
    rows, as that of features is.
    """
    counts, columns = truth.sum(axis=1).astype("<i8"), np.nonzero(truth)[1].astype("<i8")
    digest = sha256(repr((tuple(map(str, names)), len(truth))).encode("utf-8", "surrogatepass"))
    digest.update(sha256(counts.tobytes()).digest() + sha256(columns.tobytes()).digest())
    return digest.hexdigest()


def _predictions(
    minimiser: NearestNeighbourMinimiser,
    X: NDArray[np.float64],
    truth: NDArray[np.bool_],
    splits: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    ks: Sequence[int],
    step: Callable[[int], None],
) -> NDArray[np.bool_]:
    """Label sets of the test rows of all folds, one after the other, for each k."""
    found = np.empty((len(ks), sum(len(test) for _, test in splits), truth.shape[1]), dtype=bool)
    start = 0
    for train, test in splits:
        with disable_autologging():  # MLflow's own would make a run of each search for neighbours
            found[:, start : start + len(test)] = minimiser.fit(X[train], truth[train]).predict_all(
                X[test], ks
            )
        start += len(test)
        step(1)
    return found


def _held(client: MlflowClient, experiment_id: str, dataset: str) -> dict[int, Run]:
    """Runs of a study by surrogate; of several the latest, one that is complete if there is one."""
    found = {}
    started = store.search(client, [experiment_id], f"tags.`{schema.TAG_METHOD}` LIKE '{_METHOD}%'")
    for run in sorted(started, key=lambda r: (_complete(r), r.info.start_time, r.info.run_id)):
        k = run.data.tags[schema.TAG_METHOD].removeprefix(_METHOD)
        if run.data.tags.get(schema.TAG_DATASET) == dataset and k.isdecimal():
            found[int(k)] = run
    return dict(sorted(found.items()))


def _complete(run: Run) -> bool:
    return run.data.tags.get(schema.TAG_STATUS) == schema.COMPLETE


def _identity(run: Run) -> dict[str, Any]:
    """What tells the study of the run from others: digests of labels, features and folds, and the
    number of neighbours.
    """
    try:
        return {
            name: value
            for name, value in json.loads(run.data.tags[schema.TAG_SURROGATE]).items()
            if name != "k"
        }
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
    experiment_id = client.get_experiment_by_name(study.experiment).experiment_id
    digest = sha256(json.dumps(sorted(study.runs.values())).encode()).hexdigest()
    reported = store.having(client, [experiment_id], schema.TAG_SURROGATE, digest)
    if any(run.info.status == "FINISHED" for run in reported):
        return
    page, *files = study.files().items()
    reports.log_report(
        {
            schema.ARTIFACT_REPORT: page[1],
            **{f"{schema.ARTIFACT_FOLDER}/{name}": content for name, content in files},
        },
        experiment_id=experiment_id,
        run_name=f"surrogates for {study.dataset}",
        summary="\n\n".join(map(markdown, study.sentences)),
        tags={schema.TAG_SURROGATE: digest, schema.TAG_DATASET: study.dataset},
    )
