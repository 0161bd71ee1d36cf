"""PROMETHEE on one decision matrix: worked examples, what must hold always, and the flows of one
measure against the definition, summed over all pairs.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import rankdata

from mlflow_mleval.analysis import promethee as flows
from mlflow_mleval.analysis.promethee import (
    PREFERENCES,
    flows_by_measure,
    left_open,
    promethee,
    stacked_flows,
    tied_ranks,
    unicriterion_flows,
)


@pytest.fixture
def stations():
    """The power stations of Brans & Vincke 1985: one preference function of each kind."""
    columns = {
        "staff": ("u_shape", [80, 65, 83, 40, 52, 94]),
        "power": ("v_shape", [90, 58, 60, 80, 72, 96]),
        "cost": ("linear", [6, 2, 4, 10, 6, 7]),
        "upkeep": ("level", [5.4, 9.7, 7.2, 7.5, 2.0, 3.6]),
        "villages": ("usual", [8, 1, 4, 7, 3, 5]),
        "safety": ("gaussian", [5, 1, 7, 10, 8, 6]),
    }
    return {
        "table": pd.DataFrame({name: x for name, (_, x) in columns.items()}, range(1, 7)),
        "minimize": ["staff", "cost", "upkeep", "villages"],
        "preference": {name: function for name, (function, _) in columns.items()},
        "weights": "equal",
        "q": {"staff": 10, "cost": 0.5, "upkeep": 1},
        "p": {"power": 30, "cost": 5, "upkeep": 6},
        "s": {"safety": 5},
    }


def test_power_stations(stations):
    result = promethee(**stations)
    # what each station makes of station 1 to 6, summed by hand: π(1,2) = (0 + 1 + 0 + ½ + 0 + 1 -
    # e^-0.32) / 6 = .2956 ...
    index_of_1 = [0.2956, 0.2500, 0.2684, 0.1000, 0.1853]
    assert result.flows.phi_plus[1] == pytest.approx(sum(index_of_1) / 5, abs=1e-4)
    assert result.flows.sort_values("rank").index.tolist() == [5, 2, 4, 6, 3, 1]
    order = result.partial_order()
    assert order.loc[5].drop(5).tolist() == ["P"] * 5
    assert order.loc[4, 6] == "P" and order.loc[6, 4] == "-"
    assert order.loc[1, 2] == order.loc[2, 1] == "R"


#: The thresholds q, p and s in shares of the range of a measure, where a function has them.
DEFAULTS = {
    "usual": {},
    "u_shape": {"q": 1 / 10},
    "v_shape": {"p": 1},
    "level": {"q": 1 / 10, "p": 1 / 2},
    "linear": {"q": 1 / 10, "p": 1},
    "gaussian": {"s": 1 / 3},
}


@pytest.mark.parametrize("function", PREFERENCES)
@pytest.mark.parametrize("digits", [1, 17])
def test_default_thresholds_are_shares_of_the_range(function, digits):
    rng = np.random.default_rng(digits)
    table = pd.DataFrame(rng.random((12, 4)).round(digits), columns=list("abcd"))
    result = promethee(table, ["b"], function)
    for name, values in table.items():
        own = {key: share * np.ptp(values) for key, share in DEFAULTS[function].items()}
        found = result.thresholds.loc[name].drop("preference").dropna()
        assert found.to_dict() == pytest.approx(own)
        turned = -values if name == "b" else values
        plus, minus = unicriterion_flows(turned.to_numpy(), function, **own)
        assert np.allclose(result.unicriterion[name], plus - minus, rtol=0, atol=1e-12)


rows_of_three = st.lists(st.integers(-20, 20), min_size=3, max_size=3)
tables = st.lists(rows_of_three, min_size=2, max_size=8).map(
    lambda rows: pd.DataFrame(np.array(rows) / 10, [f"m{i}" for i in range(len(rows))], [*"abc"])
)


@given(tables, st.sampled_from(list(PREFERENCES)), st.sampled_from(["entropy", "equal"]))
def test_what_holds_for_every_table(table, function, weights):
    result = promethee(table, ["b"], function, weights)
    flows = result.flows
    assert result.weights.sum() == pytest.approx(1)
    assert (result.weights >= 0).all()
    assert np.array_equal(flows.phi, flows.phi_plus - flows.phi_minus)
    assert flows.phi.sum() == pytest.approx(0, abs=1e-12)
    assert flows[["phi_plus", "phi_minus"]].min(axis=None) >= 0
    assert flows[["phi_plus", "phi_minus"]].max(axis=None) <= 1 + 1e-12
    assert np.allclose(result.unicriterion @ result.weights, flows.phi, atol=1e-12)
    assert np.array_equal(flows["rank"], rankdata(-flows.phi.round(10)))
    order = result.partial_order().to_numpy()
    mirror = {"P": "-", "-": "P", "R": "R", "I": "I"}
    assert (np.vectorize(mirror.get)(order) == order.T).all()


@given(tables, st.sampled_from(list(PREFERENCES)), st.randoms())
def test_names_and_their_order_do_not_matter(table, function, random):
    rows, columns = random.sample(list(table.index), len(table)), random.sample(list(table), 3)
    ranks = promethee(table, ["b"], function).flows["rank"]
    expected = ranks.to_dict()
    assert promethee(table.loc[rows, columns], ["b"], function).flows["rank"].to_dict() == expected


@given(tables)
def test_minimising_is_maximising_the_negative(table):
    turned = table.assign(b=-table.b)
    assert promethee(table, ["b"]).flows.equals(promethee(turned).flows)


def test_entropy_as_the_paper():
    """Equations 6-12 written out."""
    table = pd.DataFrame({"f1": [0.7, 0.4, 0.9], "one_error": [0.1, 0.3, 0.2]})
    scaled = {
        "f1": [(x - 0.4) / (0.9 - 0.4) for x in table.f1],
        "one_error": [(0.3 - x) / (0.3 - 0.1) for x in table.one_error],
    }

    def w(x):
        return x * np.exp(1 - x) + (1 - x) * np.exp(x) - 1

    most = (np.exp(0.5) - 1) * 3
    e = {name: sum(w(x / sum(q)) for x in q) / most for name, q in scaled.items()}
    for name, weight in promethee(table, ["one_error"]).weights.items():
        assert weight == pytest.approx((1 - e[name]) / (2 - sum(e.values())))


def test_constant_measure():
    table = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3.0, 3.0, 3.0]}, index=["x", "y", "z"])
    for function in PREFERENCES:
        kept = promethee(table, preference=function)
        dropped = promethee(table, preference=function, drop_constant=True)
        assert (kept.unicriterion.b == 0).all()
        assert 0 < kept.weights.b < kept.weights.a
        assert dropped.weights.to_dict() == {"a": 1, "b": 0}
        assert kept.flows["rank"].equals(dropped.flows["rank"])
        assert "The same for every method, so that it tells none apart: 'b'" in kept.warnings[0]
    alike = promethee(table[["b"]], drop_constant=True)
    assert (alike.flows["rank"] == 2).all() and alike.weights.b == 1


def test_gaia_is_the_principal_plane():
    rng = np.random.default_rng(0)
    result = promethee(pd.DataFrame(rng.random((9, 4)), columns=list("abcd")))
    gaia = result.gaia()
    values = np.linalg.svd(result.unicriterion.to_numpy(), compute_uv=False) ** 2
    assert gaia.shares == pytest.approx(tuple(values[:2] / values.sum()))
    assert gaia.explained == pytest.approx(sum(gaia.shares))
    assert np.allclose(gaia.methods, result.unicriterion @ gaia.measures)
    assert (gaia.axis >= 0).all()
    assert np.allclose(gaia.methods.T @ gaia.methods, np.diag(values[:2]))


def test_gaia_with_one_measure_or_none_that_differs():
    one = promethee([[1], [2], [3]]).gaia()
    assert (one.methods.y == 0).all() and one.shares == pytest.approx((1, 0))
    assert promethee([[1, 1], [1, 1]]).gaia().shares == (1, 0)


def test_two_measures_that_disagree_are_incomparable():
    table = pd.DataFrame({"a": [1.0, 0.0, 0.5], "b": [0.0, 1.0, 0.5]}, index=["x", "y", "z"])
    order = promethee(table, weights="equal").partial_order()
    assert order.loc["x", "y"] == "I"
    assert order.loc["x", "z"] == "R"
    assert np.diag(order).tolist() == ["I"] * 3


def test_thresholds_given_fill_the_others():
    table = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 10.0]})
    both = promethee(table, preference="linear", q={"a": 0.2}).thresholds
    assert both.q.tolist() == [0.2, 1.0] and both.p.tolist() == [1.0, 10.0]
    narrow = promethee(table, preference="level", p=0.05).thresholds
    assert narrow.q.tolist() == [0.05, 0.05] and narrow.p.tolist() == [0.05, 0.05]
    wide = promethee(table, preference="linear", q=20).thresholds
    assert wide.p.tolist() == [20, 20]
    mixed = promethee(table, preference={"a": "usual", "b": "gaussian"}, s=2).thresholds
    assert mixed.s.isna().tolist() == [True, False]


def test_weights_given():
    table = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    assert promethee(table, weights=[3, 1]).weights.tolist() == [0.75, 0.25]
    assert promethee(table, weights={"b": 1, "a": 3}).flows.phi.tolist() == [-0.5, 0.5]
    assert "'a' has more than half of the weight" in promethee(table, weights=[3, 1]).warnings[0]
    assert promethee(table, weights="equal").warnings == ()


def test_preferences_lost_in_noise_are_reported():
    assert "all preferences are almost zero" in promethee([[0.0], [1.0]], p=1e12).warnings[0]


OK = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 2.0]}, index=["x", "y", "z"])


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (OK.assign(a=[0, np.nan, np.inf]), {}, r"got 2 that are not: y / a \(nan\), z / a \(inf"),
        (OK.assign(a=["0", "1", "2"]), {}, "must hold numbers, got others in 'a'"),
        (OK.assign(a=[-1e308, 0, 1e308]), {}, "ranges that floats can hold, not that of 'a'"),
        (OK.assign(a=[0, 5e-324, 0]), {}, "ranges that floats can hold, not that of 'a'"),
        (OK.iloc[:1], {}, "at least two methods and one measure, got 1 x 2"),
        (OK[[]], {}, "got 3 x 0"),
        (np.zeros((2, 2, 2)), {}, "Must pass 2-d input"),
        (pd.concat([OK, OK]), {}, "name each method once, got 'x', 'y', 'z' repeatedly"),
        (pd.concat([OK, OK], axis=1), {}, "name each measure once"),
        (OK, {"minimize": ["f1"]}, "`minimize` must name measures of the table, got 'f1'"),
        (OK, {"preference": "steep"}, "`preference` must be one of"),
        (OK, {"preference": {"a": "usual"}}, "every measure a function, got none for 'b'"),
        (OK, {"preference": {"a": "usual", "b": "usual", "c": "usual"}}, "got 'c'"),
        (OK, {"weights": "random"}, "`weights` must be one of"),
        (OK, {"weights": [1, 2, 3]}, "one number a measure, 2 in all"),
        (OK, {"weights": [1, 0]}, "must be positive"),
        (OK, {"weights": {"a": 1}}, "got none for 'b'"),
        (OK, {"weights": {"a": 1, "b": 1, "c": 1}}, "got 'c'"),
        (OK, {"q": 1}, "`q` is not a threshold of 'v_shape'"),
        (OK, {"p": {"c": 1}}, "`p` must name measures of the table, got 'c'"),
        (OK, {"preference": {"a": "usual", "b": "v_shape"}, "p": {"a": 1}}, "old of 'usual'"),
        (OK, {"p": 0}, "`p` must be a positive number, got 0 for 'a'"),
        (OK, {"p": np.inf}, "`p` must be a positive number"),
        (OK, {"preference": "linear", "q": -1}, "`q` must be zero or a positive number"),
        (OK, {"preference": "linear", "q": 2, "p": 1}, "`p` must not be smaller than `q`"),
        (OK, {"preference": "gaussian", "s": -1}, "`s` must be a positive number"),
    ],
)
def test_errors_name_the_offender(table, options, message):
    with pytest.raises(ValueError, match=message):
        promethee(table, **options)


def test_a_method_less_is_as_without_it(stations):
    """Also where a measure differs no more without the method, and where one never did."""
    options = {key: stations[key] for key in ("preference", "minimize", "s")}
    first = stations["table"].astype(float)
    second = first.assign(
        staff=80.0, cost=[1, 0, 0, 0, 0, 0], safety=[1, 0, 0, 0, 0, 0], upkeep=[1, 0, 1, 0, 1, 0]
    )
    matrices = np.stack([first, second])
    flows = flows_by_measure(matrices, first.index, first.columns, **options)
    for i in range(len(first)):
        got = flows.without(i).weigh()
        for k, matrix in enumerate((first, second)):
            alone, found = promethee(matrix.drop(index=i + 1), **options), got.result(k)
            pd.testing.assert_frame_equal(found.flows, alone.flows, rtol=0, atol=1e-12)
            expected = alone.unicriterion
            pd.testing.assert_frame_equal(found.unicriterion, expected, rtol=0, atol=1e-12)
            pd.testing.assert_frame_equal(found.thresholds, alone.thresholds)


def test_pairs_that_are_left_open_as_in_the_partial_order():
    found = promethee(np.random.default_rng(0).random((12, 5)))
    left = np.argwhere(np.triu(found.partial_order() == "R"))
    flows = (found.flows[name].to_numpy() for name in ("phi_plus", "phi_minus"))
    assert len(left) and np.array_equal(np.transpose(left_open(*flows)), left)


def preference(d, function, q, p, s):
    """P(d) as DEFINITIONS state it, on the differences as floating point gives them."""
    if function == "usual":
        return (d > 0).astype(float)
    if function == "u_shape":
        return (d > q).astype(float)
    if function == "v_shape":
        return np.clip(d / p, 0, 1)
    if function == "level":
        return ((d > q).astype(float) + (d > p)) / 2
    if function == "linear":
        return np.where(d > q, np.clip((d - q) / (p - q), 0, 1), 0)
    return np.where(d > 0, -np.expm1(-((d / s) ** 2) / 2), 0)  # d² of a tiny d would be 0


def dense(x, function, q, p, s, rows=slice(None)):
    """The flows by the definition; for a few methods only where rows are given."""
    d = x[rows, None] - x
    return [preference(way, function, q, p, s).sum(axis=1) / (len(x) - 1) for way in (d, -d)]


def close(got, expected):
    return np.allclose(got, expected, rtol=0, atol=1e-12)


decimals = st.integers(1, 3)


@st.composite
def decimal_data(draw):
    """Values and thresholds of few decimals: ties, and differences that meet the thresholds."""
    unit = 10 ** draw(decimals)
    step = st.integers(-30, 30)
    x = np.array(draw(st.lists(step, min_size=2, max_size=40))) / unit
    q = draw(st.integers(0, 20)) / unit
    p = q + draw(st.integers(1, 20)) / unit
    return x, q, p


@given(decimal_data(), st.sampled_from(list(PREFERENCES)))
def test_decimal_data(data, function):
    x, q, p = data
    got, expected = unicriterion_flows(x, function, q, p, p / 2), dense(x, function, q, p, p / 2)
    assert close(got, expected)
    stacked = stacked_flows(np.stack([x, -x]), function, *np.repeat([[q], [p], [p / 2]], 2, axis=1))
    assert close([flow[0] for flow in stacked], expected)
    assert close([flow[1] for flow in stacked], expected[::-1])


@pytest.mark.parametrize("function", PREFERENCES)
def test_rows_of_many_methods_as_one_by_one(function, monkeypatch):
    values = np.random.default_rng(0).integers(0, 30, (7, 12)) / 10
    limits = np.repeat([[0.2], [0.5], [0.3]], 7, axis=1)
    monkeypatch.setattr(flows, "CELLS", 300)
    few = stacked_flows(values, function, *limits)
    monkeypatch.setattr(flows, "FEW_METHODS", 11)
    assert close(few, stacked_flows(values, function, *limits))


reals = st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False)


@example([0.0, 2.1e-228], 0.5, 1.0, "gaussian")
@example([0.0, 2.1e-228, 4.4e-228], 0.5, 1.0, "linear")
@given(
    st.lists(reals, min_size=2, max_size=40),
    st.floats(0, 0.9),
    st.floats(1e-3, 2),
    st.sampled_from(list(PREFERENCES)),
)
def test_any_data(values, low, share, function):
    x = np.array(values)
    p = share * (np.ptp(x) or 1.0)
    q, s = low * p, p / 3
    assert close(unicriterion_flows(x, function, q, p, s), dense(x, function, q, p, s))


SHAPES = {
    "uniform": lambda rng, m: rng.random(m),
    "ties": lambda rng, m: rng.random(m).round(2),
    "offset": lambda rng, m: 1e6 + rng.random(m),
    "skew": lambda rng, m: rng.lognormal(0, 3, m),
    "two groups": lambda rng, m: np.r_[rng.random(m // 2), 1e3 + rng.random(m - m // 2)] * 1e-3,
    "dense and sparse": lambda rng, m: np.r_[rng.random(m // 2), rng.random(m - m // 2) * 1e6],
    "grid": lambda rng, m: rng.permutation(m) / 1e5,
}


@pytest.mark.parametrize("function", PREFERENCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_widths_of_thresholds(shape, function):
    x = SHAPES[shape](np.random.default_rng(1), 800)
    for share in (10, 1, 0.3, 0.03, 1e-3, 1e-5):
        p = share * np.ptp(x)
        q, s = p / 10, p / 3
        assert close(unicriterion_flows(x, function, q, p, s), dense(x, function, q, p, s)), share


@pytest.mark.parametrize("function", PREFERENCES)
def test_many_methods(function):
    x = np.random.default_rng(2).random(50_000)
    rows = np.argsort(x)[:: len(x) // 10]
    got = unicriterion_flows(x, function, 0.1, 0.5, 0.3)
    assert close([flow[rows] for flow in got], dense(x, function, 0.1, 0.5, 0.3, rows))


@given(decimal_data(), st.sampled_from(list(PREFERENCES)), st.randoms())
def test_equal_values_have_equal_flows_in_any_order(data, function, random):
    x, q, p = data
    order = np.array(random.sample(range(len(x)), len(x)))
    plus, minus = unicriterion_flows(x, function, q, p, p)
    again = unicriterion_flows(x[order], function, q, p, p)
    assert np.array_equal(plus[order], again[0]) and np.array_equal(minus[order], again[1])
    for value in np.unique(x):
        assert len(set(plus[x == value])) == 1


def test_linear_with_equal_thresholds_is_the_step():
    x = np.arange(7) / 10
    assert close(
        unicriterion_flows(x, "linear", q=0.2, p=0.2), unicriterion_flows(x, "u_shape", q=0.2)
    )


@given(st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=6))
def test_tied_ranks_as_scipy(rows):
    values = np.array(rows, dtype=float)
    noise = np.linspace(-1e-14, 1e-14, values.size).reshape(values.shape)
    assert np.array_equal(tied_ranks(values + noise), rankdata(values, axis=1))
