"""What the tests of the callbacks share: toy data, what a run holds by epoch, and one warning."""

from contextlib import contextmanager, nullcontext

import mlflow
import numpy as np
import pytest

import mlflow_mleval as mleval
from mlflow_mleval.store import schema


def label_sets(n, n_train, features=5):
    """Instances and three labels that follow from them but for noise, to train and to validate."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, features))
    Y = (X[:, :3] + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)
    return X[:n_train], Y[:n_train], X[n_train:], Y[n_train:]


def history(client, run_id, measure):
    """The values of a measure by epoch."""
    entries = client.get_metric_history(run_id, schema.EPOCH_PREFIX + measure)
    return {m.step: m.value for m in sorted(entries, key=lambda m: m.step)}


def assert_epochs(client, run_id, truth, scores, measures, rel, **options):
    """The run holds these measures of each epoch's scores."""
    evs = {i: mleval.evaluate(truth, s, **options).measures for i, s in scores.items()}
    for measure in measures:
        expected = {i: ev[measure] for i, ev in evs.items()}
        assert history(client, run_id, measure) == pytest.approx(expected, rel=rel)


def assert_end(callback, truth, scores, rel=1e-12, **options):
    """The evaluation at the end is that of these scores."""
    expected = mleval.evaluate(truth, scores, **options).measures
    assert callback.epochs.evaluation.measures == pytest.approx(expected, rel=rel)


def tags_of(client, run, *names):
    """Tags of a run as it is now."""
    tags = client.get_run(run.info.run_id).data.tags
    return tuple(tags.get(name) for name in names)


@contextmanager
def one_warning(text="mleval: ", *, active=True):
    """What fails is one warning of ours, in a run or without one."""
    with (
        mlflow.start_run() if active else nullcontext(),
        pytest.warns(UserWarning, match=text) as said,
    ):
        yield
    assert len([w for w in said if "mleval" in str(w.message)]) == 1
