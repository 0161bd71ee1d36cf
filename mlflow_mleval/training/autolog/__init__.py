"""Two lines in a script that already exists: whatever it evaluates is evaluated in full and
logged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from mlflow_mleval.measures.formulas import CONVENTIONS, Conventions
from mlflow_mleval.measures.hierarchical import OPTIONS, refuse_without
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import known_measures
from mlflow_mleval.training.autolog.sink import Sink
from mlflow_mleval.training.autolog.sklearn import SklearnAutolog
from mlflow_mleval.training.delivery import forget
from mlflow_mleval.validation import one_of, refuse_keywords

_sklearn = SklearnAutolog()


def autolog(
    *,
    method: str | None = None,
    dataset: str | None = None,
    eval_data: tuple[Any, Any] | None = None,
    label_names: Sequence[Hashable] | None = None,
    hierarchy: Hierarchy | None = None,
    conventions: Conventions = "sklearn",
    measures: Iterable[str] | None = None,
    log_instances: bool = False,
    searches: bool = True,
    asynchronous: bool = False,
    silent: bool = False,
    disable: bool = False,
    **hierarchy_options: Any,
) -> None:
    """Log a full evaluation of whatever a script evaluates with scikit-learn: label sets, or one
    label of several classes.

    - ``fit``, then ``score`` or a metric of `sklearn.metrics` on held-out predictions: an
      evaluation of that data, in the run that was active at the fit, or that MLflow's own
      autologging made for it. The training data is not held out; of a model that was fitted
      elsewhere it is not known. Their ``sample_weight`` weighs the evaluation, too.
    - `cross_validate`, `cross_val_score`, `cross_val_predict`: an evaluation with folds, in the
      active run. The models of the folds predict once more for it.
    - A search, such as `GridSearchCV`: its winner is cross-validated once more on the search's
      folds, with the tag ``mleval.selected_among``: values of a winner on the folds that chose it
      are optimistic.

    Where no run is active, a new one is made. A run holds one method on one dataset; what comes
    after the first result goes to new runs of the same experiment. Where nothing is logged, one
    line says why: of a regressor, and of what was fitted when no held-out labels were seen until
    the end. The script itself is not touched: not its values, its random state, its exceptions; a
    failure to log is one warning. Works with MLflow's own autologging in any order. Calling it
    again changes the options, for example the dataset's name in a loop over datasets.

    Parameters
    ----------
    method, dataset : str, optional
        Names of all that is logged until the next call. By default the tags ``mleval.method`` and
        ``mleval.dataset`` of the run, else a short name of the estimator, such as
        LogisticRegression(C=10), and the size of the data with a digest. The estimator's parameters
        become those of the run.
    eval_data : tuple (X, Y), optional
        Held-out data on which to evaluate after every fit.
    label_names, hierarchy, conventions, **hierarchy_options
        As in `evaluate`. A hierarchy needs the names of its classes: as `label_names`, or as
        columns of a DataFrame.
    measures : iterable of str, optional
        Measures or sets to log as metrics; by default all.
    log_instances : bool
        Log a table with a row for each instance.
    searches : bool
        Whether winners of searches are cross-validated once more, which takes as long as one
        candidate of the search.
    asynchronous : bool
        Write runs in a thread while the script goes on; the end of the script and ``disable=True``
        wait for it.
    silent : bool
        No warnings.
    disable : bool
        Restore everything, and forget that a store failed.

    Raises
    ------
    ValueError, TypeError
        An unknown measure or convention; `eval_data` that is no pair.

    >>> autolog()
    >>> autolog(disable=True)
    """
    refuse_keywords(autolog, hierarchy_options, OPTIONS)
    one_of(conventions, "conventions", CONVENTIONS)
    if measures is not None:
        measures = known_measures(measures)
    if eval_data is not None and not (isinstance(eval_data, (tuple, list)) and len(eval_data) == 2):
        raise TypeError(f"`eval_data` must be a pair (X, Y), got {type(eval_data).__name__}.")
    refuse_without(hierarchy, hierarchy_options)
    if disable:
        _sklearn.stop()
        forget()
        return
    options = {
        "label_names": label_names,
        "hierarchy": hierarchy,
        "conventions": conventions,
        "instances": log_instances,
        **hierarchy_options,
    }
    logged = {"measures": measures, "log_instances": log_instances}
    _sklearn.start(
        Sink(method, dataset, logged, silent, asynchronous), options, eval_data, searches
    )
