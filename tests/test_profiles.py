"""Loss profiles of many runs: what travels, what it is turned into, who is better where."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_mleval as mleval
from mlflow_mleval.analysis.profiles import Profiles
from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.measures.dependence import profile_from_histogram, profile_from_means
from mlflow_mleval.tracking import log, schema

SHARED = Path(__file__).parents[2] / "shared" / "golden"
#: Published profiles: six of them, and all where they lie beside the project.
PUBLISHED = [p / "huellermeier2022_profiles.json" for p in (Path(__file__).parent / "golden", SHARED)]

# ---- tags --------------------------------------------------------------------------------------------------------------


def histograms(n_labels, n_folds, n, rate, seed):
    """Numbers of instances with 0 .. K wrong labels, by fold."""
    wrong = np.random.default_rng(seed).binomial(n_labels, rate, size=(n_folds, n))
    return np.array([np.bincount(row, minlength=n_labels + 1) for row in wrong])


def pad(rows, width):
    return np.array([[*row, *[0] * (width - len(row))] for row in rows])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2, 14, 174, 5000]), st.integers(0, 30), st.integers(1, 500), st.sampled_from([0, 0.01, 0.1, 0.5, 1]),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_counts_travel_exactly_by_fold_or_added_up(n_labels, n_folds, n, rate, seed):
    counts = histograms(n_labels, max(n_folds, 1), n, rate, seed)
    folds = list(range(3, 3 + n_folds))
    text = schema.encode_profile(counts, folds)
    assert len(text) <= schema.MAX_TAG
    found = schema.decode_profile(text)
    assert found.n_labels == n_labels
    if found.pooled:
        assert n_folds > 1 and not found.folds and counts.astype(bool).sum() > 800  # too many to list
        counts = counts.sum(axis=0, keepdims=True)
    else:
        assert found.folds == folds
    assert pad(found.rows, n_labels + 1).tolist() == counts.tolist() and found.n == counts.sum(axis=1).tolist()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 14, 174, 5000]), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_errors_travel_by_fold_or_together_or_not(n_labels, n_folds, seed):
    rng = np.random.default_rng(seed)
    errors = np.sort(rng.random((max(n_folds, 1), n_labels)) * rng.random(), axis=1)[:, ::-1]
    n, folds = rng.integers(1, 500, max(n_folds, 1)).tolist(), list(range(n_folds))
    text = schema.encode_soft_profile(errors, n, folds)
    assert len(text) <= schema.MAX_TAG
    found = schema.decode_soft_profile(text)
    assert found.n_labels == n_labels and found.omitted == (n_labels == 5000 and errors[0, 1500] > 1e-4)
    if found.omitted:
        return
    rows = pad(found.rows, n_labels)
    if found.pooled:
        assert n_folds * n_labels > 900 and found.n == [sum(n)]
        errors = np.average(errors, axis=0, weights=n)[None]
    else:
        assert (found.folds, found.n) == (folds, n)
    np.testing.assert_allclose(rows, errors, atol=1e-12 if errors.size <= 300 else 6e-5)


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "3", '{"schema":1}', '{"schema":9,"n_labels":2,"counts":[[1]]}', '{"schema":1,"n_labels":2,"counts":[]}',
    '{"schema":1,"n_labels":2,"counts":[[1,2,3,4]]}', '{"schema":1,"n_labels":2,"counts":[[-1,2]]}',
    '{"schema":1,"n_labels":2,"counts":[[0.5]]}', '{"schema":1,"n_labels":2,"counts":[[]]}',
    '{"schema":1,"n_labels":1e99,"counts":[[1]]}', '{"schema":1,"n_labels":99999999999,"counts":[[1]]}',
    '{"schema":1,"n_labels":2,"folds":[1,1],"counts":[[1],[1]]}', '{"schema":1,"n_labels":2,"folds":[1],"counts":[[1],[1]]}',
    '{"schema":1,"n_labels":2,"sparse":[[9,1]]}', '{"schema":1,"n_labels":2,"sparse":[[1]]}',
    '{"schema":1,"n_labels":2,"counts":' + "[" * 5000,
])  # fmt: skip
def test_broken_counts_are_an_error(text):
    with pytest.raises(ValueError, match="the profile is not in the form this package writes"):
        schema.decode_profile(text)


@pytest.mark.parametrize("change", [
    {"errors": [[0.2, 0.5]]}, {"errors": [[1.5]]}, {"errors": [[0.5, -0.1]]}, {"errors": [[0.5] * 3]}, {"n": [0]}, {"n": []},
    {"errors": [["x"]]}, {"errors": [[float("nan")]]}, {"errors": [[0.5], [0.5]]},
])  # fmt: skip
def test_broken_errors_are_an_error(change):
    good = {"schema": 1, "n_labels": 2, "n": [20], "errors": [[0.5, 0.25]]}
    assert schema.decode_soft_profile(json.dumps(good)).rows == [[0.5, 0.25]]
    with pytest.raises(ValueError, match="the profile is not in the form this package writes"):
        schema.decode_soft_profile(json.dumps(good | change))


# ---- profiles ----------------------------------------------------------------------------------------------------------


def published(path):
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return json.loads(path.read_text())


@pytest.mark.parametrize("path", PUBLISHED, ids=["six", "all"])
def test_the_published_profiles_follow_from_their_counts(path):
    golden = published(path)
    records = {(r["dataset"], r["algorithm"]): r for r in golden["records"]}
    found = Profiles.from_counts({pair: r["error_count_hist"] for pair, r in records.items()})
    assert len(found.errors) == len(golden["records"]) and not found.absent
    for dataset in found.datasets:
        binomial, polynomial = found.losses(dataset), found.losses(dataset, "polynomial", golden["alpha"])
        for method in found.on(dataset):
            np.testing.assert_allclose(binomial.loc[method], records[dataset, method]["binomial"], rtol=1e-12)
            np.testing.assert_allclose(polynomial.loc[method], records[dataset, method]["polynomial"], rtol=1e-11)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_losses_are_those_of_each_fold(n_labels, n_folds, seed):
    rng = np.random.default_rng(seed)
    counts = histograms(n_labels, n_folds, 20, rng.random(), seed)
    errors = np.sort(rng.random((n_folds, n_labels)), axis=1)[:, ::-1]
    for family in ("binomial", "polynomial"):
        hard, soft = Profiles.from_counts({("d", "m"): counts}), Profiles.from_errors({("d", "m"): errors})
        at = hard.parameters("d", family)
        assert at[0] == 1 and (family == "polynomial" or (at[-1] == n_labels and len(at) == min(n_labels, 100)))
        for found, rows, single in ((hard, counts, profile_from_histogram), (soft, errors, profile_from_means)):
            by_fold = found.by_fold("d", family)
            expected = np.array([single(row, family, at).losses for row in rows])
            np.testing.assert_allclose(by_fold, expected, rtol=1e-12, atol=1e-14)
            assert by_fold.index.tolist() == [("m", r) for r in range(n_folds)] and by_fold.columns.tolist() == at.tolist()
            mean = found.losses("d", family)
            np.testing.assert_allclose(mean.loc["m"], expected.mean(axis=0), rtol=1e-12, atol=1e-14)
            assert (np.diff(mean.to_numpy()) >= -1e-15).all() and (np.diff(by_fold.to_numpy()) >= 0).all()
            assert found.positions("d", family)[[0, -1]].tolist() == [0, float(n_labels > 1 or family == "polynomial")]


def test_profiles_refuse_what_is_none():
    for counts in ([1], [0, 0], [[1, 2], [0, 0]], [-1, 2], [0.5, 1], [np.nan, 1], [np.inf, 1]):
        with pytest.raises(ValueError, match="`counts` must hold .* for A on d"):
            Profiles.from_counts({("d", "A"): counts})
    for errors in ([0.2, 0.5], [1.5, 0.1], [np.nan], [0.5, -0.2], []):
        with pytest.raises(ValueError, match="`errors` must hold .* for A on d"):
            Profiles.from_errors({("d", "A"): errors})
    with pytest.raises(ValueError, match="`folds` must name the 2 rows of A on d"):
        Profiles.from_counts({("d", "A"): [[1, 2], [3, 4]]}, folds={("d", "A"): [1, 1]})
    found = Profiles.from_counts({("d", "A"): [1, 2], ("d", "B"): [1, 2], ("d", "C"): [1, 2, 3]})
    assert found.absent == {"C on d": "it has 2 labels and most methods on the dataset have 1"} and found.methods == ["A", "B"]
    with pytest.raises(ValueError, match="`dataset` must be one of 'd', got 'e'"):
        found.losses("e")
    with pytest.raises(ValueError, match="`parameters` must increase"):
        found.losses("d", "polynomial", [2, 1])
    assert found.by_fold("d").empty and found.select([("d", "B")]).methods == ["B"]


# ---- runs --------------------------------------------------------------------------------------------------------------


def logged(method, dataset="d", n=60, k=6, folds=3, seed=0, scores=True, rate=0.3):
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < 0.4
    s = np.abs(y - rng.random((n, k)) * rate * 2)
    ev = mleval.evaluate(y, s, folds=np.arange(n) % folds if folds else None) if scores else mleval.evaluate(y, y_pred=s > 0.5)
    mleval.log_evaluation(ev, method=method, dataset=dataset, experiment_name="x")
    return ev


def test_profiles_of_runs_are_those_of_the_evaluations(client, monkeypatch):
    evs = {("d", "A"): logged("A"), ("d", "B"): logged("B", seed=1), ("e", "A"): logged("A", "e", k=1, folds=0)}
    evs["e", "B"] = logged("B", "e", k=1, folds=0, scores=False)
    log.write(log.Payload("C", "d", {"hamming_loss": 0.25}), experiment_name="x")
    calls = []
    search = type(client).search_runs
    monkeypatch.setattr(type(client), "search_runs", lambda *a, **b: calls.append(a) or search(*a, **b))
    study = mleval.load_study(experiment_names=["x"], measures=["hamming_loss"])
    hard, soft = mleval.profiles_of(study), mleval.profiles_of(study, "soft")
    assert len(calls) == 1  # and nothing per run
    assert hard.absent == {"C on d": "its run carries no profile"} and set(hard.errors) == set(evs)
    assert soft.absent == hard.absent | {"B on e": "its run carries a profile of label sets only"}
    for kind, found in (("hard", hard), ("soft", soft)):
        for (dataset, method), ev in ((pair, evs[pair]) for pair in found.errors):
            expected = np.mean([ev.fold(f).profile(kind=kind).losses for f in ev.sums], axis=0)
            np.testing.assert_allclose(found.losses(dataset).loc[method], expected, rtol=1e-13)
            assert found.folds[dataset, method] == (() if dataset == "e" else (0, 1, 2))
    again = mleval.load_profiles("soft", experiment_names=["x"], methods=["A"], datasets=["d"])
    assert list(again.errors) == [("d", "A")] and again.source["experiments"] and again.runs["n_test"].tolist() == [(20,) * 3]
    with pytest.raises(NoRunsError, match="no run of the selection has a loss profile of label sets .C on d: its run carries no"):
        mleval.load_profiles(experiment_names=["x"], methods=["C"])


def test_a_profile_without_room_in_its_tag_is_read_from_its_table(client):
    n, k = 12, 4000
    rng = np.random.default_rng(0)
    y, s = rng.random((n, k)) < 0.1, rng.random((n, k))
    ev = mleval.evaluate(y, s, folds=np.arange(n) % 3)
    mleval.log_evaluation(ev, method="A", dataset="d", experiment_name="x")
    study = mleval.load_study(experiment_names=["x"])
    assert '"omitted":"mleval/profile.csv"' in study.profile_tags["d", "A"]["soft"]
    soft, hard = mleval.profiles_of(study, "soft"), mleval.profiles_of(study)
    assert "1 profiles are of all folds together" in soft.notes[-1] and soft.folds["d", "A"] == () and hard.folds["d", "A"]
    ks = soft.parameters("d")
    np.testing.assert_allclose(soft.losses("d").loc["A"], ev.profile(ks=ks, kind="soft").losses, rtol=1e-9)
    for run in client.search_runs(study.runs["experiment_id"].tolist()):
        client.set_tag(run.info.run_id, "mleval.soft_profile", '{"schema":1}')
        client.set_tag(run.info.run_id, "mleval.profile", '{"schema":1,"n_labels":9,"omitted":"/etc/passwd"}')
    with pytest.raises(NoRunsError, match="the profile is not in the form"):
        mleval.load_profiles("soft", experiment_names=["x"])
    with pytest.raises(NoRunsError, match="its run has no mleval/profile.csv that holds it"):
        mleval.load_profiles(experiment_names=["x"])
