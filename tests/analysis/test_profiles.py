"""Loss profiles of many runs: what travels, what it is turned into, who is better where."""

import json
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import mlflow_mleval as mleval
from mlflow_mleval.analysis import loss_profiles
from mlflow_mleval.analysis.loss_profiles import (
    Profiles,
    along_parameter,
    compare_profiles,
    gather_profiles,
)
from mlflow_mleval.analysis.pairs import stepped
from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.measures.owa import awareness, profile_from_histogram, profile_from_means
from mlflow_mleval.sentences import MAX_TAG
from mlflow_mleval.store import runs, schema

# ---- tags ----------------------------------------------------------------------------------------


def histograms(n_labels, n_folds, n, rate, seed):
    """Numbers of instances with 0 .. K wrong labels, by fold."""
    wrong = np.random.default_rng(seed).binomial(n_labels, rate, size=(n_folds, n))
    return np.array([np.bincount(row, minlength=n_labels + 1) for row in wrong])


def pad(rows, width):
    return np.array([[*row, *[0] * (width - len(row))] for row in rows])


@given(
    st.sampled_from([1, 2, 14, 174, 5000]),
    st.integers(0, 30),
    st.integers(1, 500),
    st.sampled_from([0, 0.01, 0.1, 0.5, 1]),
    st.integers(0, 2**32 - 1),
)
def test_counts_travel_exactly_by_fold_or_added_up(n_labels, n_folds, n, rate, seed):
    counts = histograms(n_labels, max(n_folds, 1), n, rate, seed)
    folds = list(range(3, 3 + n_folds))
    text = schema.encode_profile(counts, folds)
    assert len(text) <= MAX_TAG
    found = schema.decode_profile(text)
    assert found.n_labels == n_labels
    if found.pooled:
        # too many to list
        assert n_folds > 1 and not found.folds and counts.astype(bool).sum() > 800
        counts = counts.sum(axis=0, keepdims=True)
    else:
        assert found.folds == folds
    assert pad(found.rows, n_labels + 1).tolist() == counts.tolist()
    assert found.n == counts.sum(axis=1).tolist()


@given(st.sampled_from([1, 2, 14, 174, 5000]), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_errors_travel_by_fold_or_together_or_not(n_labels, n_folds, seed):
    rng = np.random.default_rng(seed)
    errors = np.sort(rng.random((max(n_folds, 1), n_labels)) * rng.random(), axis=1)[:, ::-1]
    n, folds = rng.integers(1, 500, max(n_folds, 1)).tolist(), list(range(n_folds))
    text = schema.encode_soft_profile(errors, n, folds)
    assert len(text) <= MAX_TAG
    found = schema.decode_profile(text, "soft")
    assert found.n_labels == n_labels
    assert found.omitted == (n_labels == 5000 and errors[0, 1500] > 1e-4)
    if found.omitted:
        return
    rows = pad(found.rows, n_labels)
    if found.pooled:
        assert n_folds * n_labels > 900 and found.n == [sum(n)]
        errors = np.average(errors, axis=0, weights=n)[None]
    else:
        assert (found.folds, found.n) == (folds, n)
    np.testing.assert_allclose(rows, errors, atol=1e-12 if errors.size <= 300 else 6e-5)


GOOD = {"schema": 1, "n_labels": 2}


SOFT = GOOD | {"n": [20], "errors": [[0.5, 0.25]]}
BROKEN = [
    *("", "{}", "[]", "3", '{"schema":1}', '{"schema":1,"n_labels":2,"counts":' + "[" * 5000),
    GOOD | {"schema": 9, "counts": [[1]]},
    *(GOOD | {"counts": c} for c in ([], [[1, 2, 3, 4]], [[-1, 2]], [[0.5]], [[]])),
    *(GOOD | {"counts": [[1]], "n_labels": n} for n in (1e99, 99999999999)),
    *(GOOD | {"counts": [[1], [1]], "folds": f} for f in ([1, 1], [1])),
    *(GOOD | {"sparse": s} for s in ([[9, 1]], [[1]])),
    *(SOFT | {"errors": [row]} for row in ([0.2, 0.5], [1.5], [0.5, -0.1], [0.5] * 3, ["x"])),
    *(SOFT | {"errors": rows} for rows in ([[float("nan")]], [[0.5], [0.5]])),
    *(SOFT | {"n": n} for n in ([0], [])),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_profiles_are_an_error(broken):
    assert schema.decode_profile(json.dumps(SOFT), "soft").rows == [[0.5, 0.25]]
    text = broken if isinstance(broken, str) else json.dumps(broken)
    kind = "soft" if '"errors"' in text else "hard"
    with pytest.raises(ValueError, match="the profile is not in the form this package writes"):
        schema.decode_profile(text, kind)


# ---- profiles ------------------------------------------------------------------------------------


def soft_profiles(errors, folds=()):
    """Profiles of scores from the means of the largest, second largest .. error."""
    rows = {pair: np.atleast_2d(row) for pair, row in errors.items()}
    n_labels = {pair: row.shape[1] for pair, row in rows.items()}
    return gather_profiles(rows, n_labels, dict.fromkeys(rows, folds), "soft")


@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_losses_are_those_of_each_fold(n_labels, n_folds, seed):
    rng = np.random.default_rng(seed)
    counts = histograms(n_labels, n_folds, 20, rng.random(), seed)
    errors = np.sort(rng.random((n_folds, n_labels)), axis=1)[:, ::-1]
    for family in ("binomial", "polynomial"):
        hard = Profiles.from_counts({("d", "m"): counts})
        soft = soft_profiles({("d", "m"): errors}, tuple(range(n_folds)))
        at = hard.parameters("d", family)
        assert at[0] == 1
        assert family == "polynomial" or (at[-1] == n_labels and len(at) == min(n_labels, 100))
        for found, rows, single in (
            (hard, counts, profile_from_histogram),
            (soft, errors, profile_from_means),
        ):
            by_fold = found.by_fold("d", family)
            expected = np.array([single(row, family, at).losses for row in rows])
            np.testing.assert_allclose(by_fold, expected, rtol=1e-12, atol=1e-14)
            assert by_fold.index.tolist() == [("m", r) for r in range(n_folds)]
            assert by_fold.columns.tolist() == at.tolist()
            mean = found.losses("d", family)
            np.testing.assert_allclose(mean.loc["m"], expected.mean(axis=0), rtol=1e-12, atol=1e-14)
            assert (np.diff(mean.to_numpy()) >= -1e-15).all()
            assert (np.diff(by_fold.to_numpy()) >= 0).all()


def test_profiles_refuse_what_is_none():
    for counts in ([1], [0, 0], [[1, 2], [0, 0]], [-1, 2], [0.5, 1], [np.nan, 1], [np.inf, 1]):
        with pytest.raises(ValueError, match="`counts` must hold .* for A on d"):
            Profiles.from_counts({("d", "A"): counts})
    with pytest.raises(ValueError, match="`folds` must name the 2 rows of A on d"):
        Profiles.from_counts({("d", "A"): [[1, 2], [3, 4]]}, folds={("d", "A"): [1, 1]})
    found = Profiles.from_counts({("d", "A"): [1, 2], ("d", "B"): [1, 2], ("d", "C"): [1, 2, 3]})
    assert found.absent == {"C on d": "it has 2 labels and most methods on the dataset have 1"}
    assert found.methods == ["A", "B"]
    with pytest.raises(ValueError, match="`dataset` must be one of 'd', got 'e'"):
        found.losses("e")
    with pytest.raises(ValueError, match="`parameters` must increase"):
        found.losses("d", "polynomial", [2, 1])
    assert found.by_fold("d").empty and found.select([("d", "B")]).methods == ["B"]


# ---- runs ----------------------------------------------------------------------------------------


def logged(method, dataset="d", n=60, k=6, folds=3, seed=0, scores=True, rate=0.3):
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < 0.4
    s = np.abs(y - rng.random((n, k)) * rate * 2)
    of = np.arange(n) % folds if folds else None
    ev = mleval.evaluate(y, s, folds=of) if scores else mleval.evaluate(y, y_pred=s > 0.5)
    mleval.log_evaluation(ev, method=method, dataset=dataset, experiment_name="x")
    return ev


def test_profiles_of_runs_are_those_of_the_evaluations(client):
    evs = {("d", "A"): logged("A"), ("d", "B"): logged("B", seed=1)}
    evs |= {("e", m): logged(m, "e", k=1, folds=0, scores=m == "A") for m in "AB"}
    runs.write(runs.Payload("C", "d", {"hamming_loss": 0.25}), experiment_name="x")
    study = mleval.load_study(experiment_names=["x"], measures=["hamming_loss"])
    hard, soft = mleval.profiles_of(study), mleval.profiles_of(study, "soft")
    assert hard.absent == {"C on d": "its run carries no profile of label sets"}
    assert set(hard.errors) == set(evs)
    none = "its run carries no profile of scores"
    assert soft.absent == dict.fromkeys(("C on d", "B on e"), none)
    for kind, found in (("hard", hard), ("soft", soft)):
        for dataset, method in found.errors:
            ev = evs[dataset, method]
            expected = np.mean([ev.fold(f).profile(kind=kind).losses for f in ev.sums], axis=0)
            np.testing.assert_allclose(found.losses(dataset).loc[method], expected, rtol=1e-13)
            assert found.folds[dataset, method] == (() if dataset == "e" else (0, 1, 2))
    again = mleval.load_profiles("soft", experiment_names=["x"], methods=["A"], datasets=["d"])
    assert list(again.errors) == [("d", "A")] and again.source["experiments"]
    assert again.runs["n_test"].tolist() == [(20,) * 3]
    said = "no run of the selection has a loss profile of label sets .C on d: its run carries no"
    with pytest.raises(NoRunsError, match=said):
        mleval.load_profiles(experiment_names=["x"], methods=["C"])


def test_a_profile_without_room_in_its_tag_is_read_from_its_table(client):
    n, k = 12, 4000
    rng = np.random.default_rng(0)
    y, s = rng.random((n, k)) < 0.1, rng.random((n, k))
    ev = mleval.evaluate(y, s, folds=np.arange(n) % 3)
    mleval.log_evaluation(ev, method="A", dataset="d", experiment_name="x")
    study = mleval.load_study(experiment_names=["x"])
    assert study.profiles["d", "A"]["soft"].omitted
    soft, hard = mleval.profiles_of(study, "soft"), mleval.profiles_of(study)
    assert "1 profiles are of all folds together" in soft.notes[-1]
    assert soft.folds["d", "A"] == () != hard.folds["d", "A"]
    ks = soft.parameters("d")
    expected = ev.profile(ks=ks, kind="soft").losses
    np.testing.assert_allclose(soft.losses("d").loc["A"], expected, rtol=1e-9)
    broken = '{"schema":1,"n_labels":9,"omitted":"/etc/passwd"}'
    for run in client.search_runs(study.runs["experiment_id"].tolist()):
        client.set_tag(run.info.run_id, "mleval.soft_profile", '{"schema":1}')
        client.set_tag(run.info.run_id, "mleval.profile", broken)
    with pytest.raises(NoRunsError, match="the profile is not in the form"):
        mleval.load_profiles("soft", experiment_names=["x"])
    with pytest.raises(NoRunsError, match="its run has no mleval/profile.csv that holds it"):
        mleval.load_profiles(experiment_names=["x"])


def test_a_profile_is_logged_from_its_counts(client):
    counts = histograms(14, 5, 40, 0.15, 3)
    given = {"counts": counts, "method": "A", "dataset": "d", "experiment_name": "x"}
    more = {"n_train": 160, "tags": {"note": "published"}}
    first = mleval.log_profile(**given, **more)
    mleval.log_profile(**given | {"counts": counts.sum(axis=0), "method": "B"})
    usual = ["hamming_loss", "subset_accuracy"]
    assert mleval.load_study(experiment_names=["x"]).measures == usual
    study = mleval.load_study(experiment_names=["x"], measures=[*usual, "dependence"])
    errors = Profiles.from_counts({("d", "A"): counts}).errors["d", "A"]
    means = study.values.loc["d", "A"]
    assert {*study.measures} == {*usual, "binomial_area", "binomial_slope", "binomial_gain"}
    assert means["hamming_loss"] == pytest.approx((counts @ np.arange(15) / 14 / 40).mean())
    assert means["subset_accuracy"] == pytest.approx((counts[:, 0] / 40).mean())
    gains = awareness(errors)["relative_gain"]
    np.testing.assert_allclose(study.folds.loc["d", "A"]["binomial_gain"], gains)
    found = mleval.profiles_of(study)
    expected = errors[:, : found.errors["d", "A"].shape[1]]
    np.testing.assert_array_equal(found.errors["d", "A"][:, : errors.shape[1]], expected)
    assert (found.folds["d", "A"], found.folds["d", "B"]) == ((0, 1, 2, 3, 4), ())
    run = client.get_run(first)
    assert run.data.tags["mleval.status"] == "complete" and run.data.tags["note"] == "published"
    assert study.runs["n_train"].tolist() == [(160,) * 5, ()] and run.info.status == "FINISHED"
    history = client.get_metric_history(first, "mleval.profile/binomial")
    np.testing.assert_allclose([m.value for m in history], found.losses("d").loc["A"])
    assert mleval.log_profile(**given | {"experiment_name": None}, run_id=first, **more) == first
    wrong = {"method": "", "dataset": 3, "run_id": first, "folds": [1], "counts": [0, 0]}
    for name, value in (wrong | {"n_train": [1, 2]}).items():
        with pytest.raises((TypeError, ValueError)):
            mleval.log_profile(**given | {name: value})


# ---- comparison ----------------------------------------------------------------------------------


def methods_of(n_labels=14, n_folds=10, n=80, seed=0, methods=("BR", "LP", "CC"), datasets=("d",)):
    """Errors that are independent, that fall together, and something between, on one split."""
    rng = np.random.default_rng(seed)
    rates = {
        "BR": lambda: np.full(n, 0.12),
        "LP": lambda: 0.5 * (rng.random(n) < 0.35),
        "CC": lambda: rng.beta(0.6, 4, n),
    }
    counts = {}
    for pair in product(datasets, methods):
        wrong = [rng.binomial(n_labels, rates[pair[1][:2]]()) for _ in range(n_folds)]
        counts[pair] = [np.bincount(row, minlength=n_labels + 1) for row in wrong]
    runs = pd.DataFrame([*counts], columns=["dataset", "method"])
    known = {"split_digest": "s", "n_train": 9 * n, "n_test": n}
    return Profiles.from_counts(counts, runs=runs.assign(**known))


def test_one_parameter_is_the_corrected_paired_t_test():
    profiles = methods_of(n_labels=1)
    found = compare_profiles(profiles, alpha=0.05)
    by = profiles.by_fold("d")[1].unstack("fold")
    pvalues = {}
    for a, b in combinations(["BR", "LP", "CC"], 2):
        d = by.loc[b] - by.loc[a]
        t = d.mean() / np.sqrt(d.var() * (1 / 10 + 1 / 9))  # Nadeau & Bengio 2003
        pvalues[a, b] = 2 * stats.t.sf(abs(t), 9)
    order = sorted(pvalues, key=pvalues.get)
    holm = np.maximum.accumulate([pvalues[pair] * (3 - i) for i, pair in enumerate(order)])
    for pair, p in zip(order, holm, strict=True):
        assert found.ratios.loc[("d", *pair, 1), "pvalue"] == pytest.approx(min(p, 1))
    pair = profiles.select([("d", "BR"), ("d", "LP")])
    independent = compare_profiles(pair, protocol="independent")
    expected = stats.ttest_rel(by.loc["BR"], by.loc["LP"]).pvalue
    assert independent.ratios["pvalue"].item() == pytest.approx(expected)
    assert compare_profiles(profiles, ratio=1 / 9).ratios.equals(compare_profiles(profiles).ratios)


def test_neighbours_that_are_equal_cost_nothing_and_others_at_most_their_number():
    rng = np.random.default_rng(0)
    d = rng.normal(1, 1, (5, 10, 1))
    alone = along_parameter(d, np.sqrt(0.1))
    np.testing.assert_allclose(alone[:, 0], stats.ttest_1samp(d[..., 0], 0, axis=1).pvalue)
    found = along_parameter(d * np.linspace(1, -3, 7), np.sqrt(0.1))
    np.testing.assert_allclose(found, np.tile(alone, 7), rtol=1e-6)
    apart = rng.normal(1, 1, (5, 10, 6))
    single = stats.ttest_1samp(apart, 0, axis=1).pvalue
    joint = along_parameter(apart, np.sqrt(0.1))
    assert (joint >= single).all() and (joint <= np.minimum(6 * single, 1) + 1e-12).all()
    still = np.zeros((1, 10, 3))
    still[..., 2] = 0.5
    np.testing.assert_array_equal(along_parameter(still, 1.0), [[1, 1, np.nan]])


def test_the_step_down_is_closed_testing():
    rng = np.random.default_rng(1)
    for extra in (0, 2):
        along = rng.random((4, 3)) ** 3
        worst = along.max(axis=1)
        found = stepped(along, worst, extra)
        others = [*worst, *[1.0] * extra]
        for i, j in np.ndindex(4, 3):
            rest = [p for k, p in enumerate(others) if k != i]
            sets = [c for n in range(len(rest) + 1) for c in combinations(rest, n)]
            expected = max((len(c) + 1) * min([along[i, j], *c]) for c in sets)
            assert found[i, j] == pytest.approx(min(expected, 1))


@pytest.mark.thorough
def test_the_family_of_claims_keeps_its_error_rate():
    """Methods that differ by chance only: a claim on hardly more than 5 of 100 studies."""
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(300):
        base = rng.beta(1.2, 5, size=(10, 40))
        rows = {
            m: rng.binomial(8, np.clip(base * rng.gamma(8, 1 / 8, base.shape), 0, 1))
            for m in "abcd"
        }
        counts = {("d", m): [np.bincount(r, minlength=9) for r in w] for m, w in rows.items()}
        found = compare_profiles(Profiles.from_counts(counts), protocol="independent")
        wrong += len(found.claims) > 0
    assert wrong <= stats.binom.ppf(0.999, 300, 0.05)


def test_claims_crossings_and_ratios_agree_with_the_curves():
    profiles = methods_of(datasets=("d", "e"))
    found = compare_profiles(profiles)
    assert list(found.curves.columns) == ["position", "loss", "low", "high"]
    assert (found.curves["low"] < found.curves["loss"]).all()
    assert (found.curves["loss"] < found.curves["high"]).all()
    signs = {}
    for dataset in ("d", "e"):
        losses = profiles.losses(dataset)
        seen = found.curves.loc[dataset, "loss"].unstack()[losses.columns].loc[losses.index]
        np.testing.assert_array_equal(seen, losses)
        for a, b in combinations(profiles.methods, 2):
            part = found.ratios.loc[dataset, a, b]
            np.testing.assert_allclose(part["ratio"], losses.loc[b] / losses.loc[a])
            assert (part["significant"] == (part["pvalue"] <= 0.05)).all()
            way = np.sign(losses.loc[b] - losses.loc[a])
            signs[dataset, a, b] = way.to_numpy() * part["significant"].to_numpy()
    told = {key: np.zeros(14) for key in signs}
    for c in found.claims.itertuples():
        key, way = (c.dataset, c.better, c.worse), 1
        if key not in told:
            key, way = (c.dataset, c.worse, c.better), -1
        assert c.n_labels == 14 and not told[key][c.first - 1 : c.last].any()
        told[key][c.first - 1 : c.last] = way
    for key, expected in signs.items():
        np.testing.assert_array_equal(told[key], expected)
    pair = "dataset == 'd' and method_a == 'BR' and method_b == 'LP'"
    crossing = found.crossings.query(pair).iloc[0]
    k = int(crossing["parameter"])
    ahead = profiles.losses("d").loc["BR"] - profiles.losses("d").loc["LP"]
    assert ahead[k] * ahead[k + 1] < 0
    assert (crossing["below"], crossing["above"]) == ("BR", "LP")
    way = signs["d", "BR", "LP"]
    assert crossing["certain"] == ((way[:k] == 1).any() and (way[k:] == -1).any())
    assert crossing["position"] == pytest.approx((crossing["parameter"] - 1) / 13)


@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["binomial", "polynomial"]),
)
def test_turning_a_pair_round_turns_everything_round(n_labels, n_folds, seed, family):
    counts = {m: histograms(n_labels, n_folds, 15, 0.3, seed + i) for i, m in enumerate("ab")}
    one, other = (
        compare_profiles(Profiles.from_counts({("d", m): counts[m] for m in order}), family=family)
        for order in ("ab", "ba")
    )
    with np.errstate(divide="ignore"):
        ratio = 1 / other.ratios["ratio"].to_numpy()
    np.testing.assert_allclose(one.ratios["ratio"], ratio, rtol=1e-12)
    np.testing.assert_allclose(one.ratios["pvalue"], other.ratios["pvalue"])
    same = ["parameter", "position", "below", "above", "certain"]
    pd.testing.assert_frame_equal(one.crossings[same], other.crossings[same])
    pd.testing.assert_frame_equal(one.claims, other.claims)
    if n_folds == 1:
        assert "tests.d" in one.absent
        assert one.ratios["pvalue"].isna().all() and one.curves["low"].isna().all()


def test_crossings_are_found_by_hand():
    errors = {("d", "a"): [0.6, 0.2, 0.1], ("d", "b"): [0.4, 0.3, 0.2], ("d", "c"): [0.4, 0.3, 0.2]}
    profiles = soft_profiles(errors)
    found = compare_profiles(profiles)
    losses = profiles.losses("d")  # a .3 .4667 .6, b .3 .3667 .4: equal at k = 1, then b is better
    assert losses.loc["a", 1] == pytest.approx(losses.loc["b", 1])
    assert found.crossings.empty
    errors = {("d", "a"): [0.6, 0.2, 0.0], ("d", "b"): [0.4, 0.3, 0.2]}
    (row,) = compare_profiles(soft_profiles(errors)).crossings.to_dict("records")
    # a .2667 .4667 .6, b .3 .3667 .4: b - a is 1/30, then -1/10, so they are equal a quarter of the
    # way
    assert row["parameter"] == pytest.approx(1.25)
    assert (row["below"], row["above"], row["certain"]) == ("a", "b", False)
    found = compare_profiles(soft_profiles(errors), family="polynomial")
    (row,) = found.crossings.to_dict("records")
    assert row["parameter"] == pytest.approx(1000 ** row["position"])


def test_folds_that_are_no_pairs_are_not_tested():
    profiles = methods_of()
    profiles.runs["split_digest"] = ["s", "s", "other"]
    found = compare_profiles(profiles)
    assert found.absent["tests.d: 2 pairs"].startswith("the folds of these two are not the same")
    tested = found.ratios["pvalue"].notna().groupby(level=["method_a", "method_b"]).all()
    assert tested.to_dict() == {("BR", "CC"): False, ("BR", "LP"): True, ("LP", "CC"): False}
    counts = {("d", m): histograms(4, n, 30, 0.3, n) for m, n in (("a", 5), ("b", 5), ("c", 4))}
    found = compare_profiles(Profiles.from_counts(counts))
    assert "sizes of the folds are not recorded" in found.warnings[0]
    assert found.protocols["d"].n_folds == 5
    assert found.curves["low"].notna().all()
    counts = {
        ("d", m): np.random.default_rng(i).integers(1, 9, (10, 5)) for i, m in enumerate("ab")
    }
    found = compare_profiles(Profiles.from_counts(counts), protocol="5x2")
    assert found.protocols["d"].kind == "5x2"
    assert not any("F test" in text for text in found.warnings)  # for t tests decide


def test_profiles_are_compared_on_the_folds_that_both_have():
    sizes = {"a": 5, "b": 5, "c": 4, "e": 1}
    counts = {("d", m): np.array(histograms(4, n, 30, 0.3, n)) for m, n in sizes.items()}
    found = compare_profiles(Profiles.from_counts(counts))
    assert "both have: c has all values of 4 of the 5 folds." in " ".join(found.warnings)
    assert "in common" in found.absent["tests.d: e"]
    for pair in (("a", "c"), ("a", "b")):
        n = 4 if "c" in pair else 5
        shared = Profiles.from_counts({("d", m): counts["d", m][:n] for m in pair})
        alone = compare_profiles(shared).ratios.loc[("d", *pair)]
        rows = found.ratios.loc[("d", *pair)]
        np.testing.assert_allclose(rows["ratio"], alone["ratio"])
        assert (rows["pvalue"] >= alone["pvalue"] * (1 - 1e-9)).all()
    assert found.ratios.loc[("d", "a", "e"), "pvalue"].isna().all()


def test_of_many_methods_the_best_are_compared_and_the_correction_is_for_all(monkeypatch):
    names = [f"{m}{i}" for i in range(4) for m in ("BR", "LP", "CC")]
    profiles = methods_of(methods=names, n_folds=5)
    profiles.runs["split_digest"] = "s"
    found = compare_profiles(profiles)
    monkeypatch.setattr(loss_profiles, "TOP", 3)
    some = compare_profiles(profiles)
    at = some.ratios.index.get_level_values
    best = found.awareness["area"].nsmallest(3).index.get_level_values("method")
    assert {*at("method_a"), *at("method_b")} == {*best}
    assert any("Of 12 methods only the 3" in w for w in some.warnings)
    assert not any("unknown" in w for w in some.warnings)  # the splits of the others are known
    assert len(some.curves) == len(found.curves)
    assert (some.ratios["pvalue"] >= found.ratios.loc[some.ratios.index, "pvalue"] - 1e-12).all()


def test_one_method_has_curves_and_no_pairs():
    found = compare_profiles(methods_of(methods=["BR"], datasets=("d", "e")))
    assert len(found.curves) == 28 and found.curves["low"].notna().all()
    assert len(found.awareness) == 2
    assert found.ratios.empty and found.claims.empty and found.crossings.empty
    assert list(found.ratios) == ["position", "ratio", "pvalue", "significant"]


def test_choices_that_cannot_be_are_refused():
    profiles = methods_of()
    for bad in ({"alpha": 0}, {"family": "x"}):
        with pytest.raises(ValueError, match="must"):
            compare_profiles(profiles, **bad)
    with pytest.raises(ValueError, match="at least one profile"):
        compare_profiles(profiles.select([]))


@pytest.mark.parametrize("n_labels", [1, 2, 150])
@pytest.mark.parametrize("n_folds", [2, 10])
def test_perfect_and_hopeless_methods_are_no_trouble(n_labels, n_folds):
    good = np.zeros((n_folds, n_labels + 1))
    good[:, 0] = 20
    some = histograms(n_labels, n_folds, 20, 0.3, 1)
    counts = {("d", "good"): good, ("d", "bad"): good[:, ::-1], ("d", "some"): some}
    found = compare_profiles(Profiles.from_counts(counts))
    pair = found.ratios.loc[("d", "good", "bad")]
    assert pair["ratio"].eq(np.inf).all() and pair["pvalue"].isna().all()
    assert found.crossings.empty and "cannot be tested" in " ".join(found.warnings)
    assert (found.ratios.loc[("d", "bad", "some"), "ratio"] <= 1).all()
