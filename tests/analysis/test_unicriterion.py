"""Flows of one measure against the definition, summed over all pairs."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import rankdata

from mlflow_mleval.analysis import promethee as flows
from mlflow_mleval.analysis.promethee import stacked_flows, tied_ranks, unicriterion_flows

FUNCTIONS = ("usual", "u_shape", "v_shape", "level", "linear", "gaussian")


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


@given(decimal_data(), st.sampled_from(FUNCTIONS))
def test_decimal_data(data, function):
    x, q, p = data
    got, expected = unicriterion_flows(x, function, q, p, p / 2), dense(x, function, q, p, p / 2)
    assert close(got, expected)
    stacked = stacked_flows(np.stack([x, -x]), function, *np.repeat([[q], [p], [p / 2]], 2, axis=1))
    assert close([flow[0] for flow in stacked], expected)
    assert close([flow[1] for flow in stacked], expected[::-1])


@pytest.mark.parametrize("function", FUNCTIONS)
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
    st.sampled_from(FUNCTIONS),
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


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_widths_of_thresholds(shape, function):
    x = SHAPES[shape](np.random.default_rng(1), 800)
    for share in (10, 1, 0.3, 0.03, 1e-3, 1e-5):
        p = share * np.ptp(x)
        q, s = p / 10, p / 3
        assert close(unicriterion_flows(x, function, q, p, s), dense(x, function, q, p, s)), share


@pytest.mark.parametrize("function", FUNCTIONS)
def test_many_methods(function):
    x = np.random.default_rng(2).random(50_000)
    rows = np.argsort(x)[:: len(x) // 10]
    got = unicriterion_flows(x, function, 0.1, 0.5, 0.3)
    assert close([flow[rows] for flow in got], dense(x, function, 0.1, 0.5, 0.3, rows))


@given(decimal_data(), st.sampled_from(FUNCTIONS), st.randoms())
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
