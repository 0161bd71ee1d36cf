"""Figures, those of loss profiles among them: they say what the tables say, as well-formed SVG,
whatever the names are and however many there are.
"""

import re
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from drawings import (
    HOSTILE,
    LONG,
    NS,
    classes,
    content,
    holds_only_text,
    labels_stay_inside_and_apart,
    outside,
    parse,
    texts,
)
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from mlflow_mleval.analysis.pairs import cliques
from mlflow_mleval.measures.owa import ALPHAS
from mlflow_mleval.report.figures import TOP, WIDTH, Scale, Svg
from mlflow_mleval.report.figures.comparisons import (
    bump,
    correlation_graph,
    critical_difference,
    gaia,
    pairwise_matrix,
    rank_acceptability,
    rungs,
    stacked_bars,
    weight_intervals,
)
from mlflow_mleval.report.figures.lines import NAMED, profile_lines, ratio_panels
from mlflow_mleval.report.text import terminal


def frame_of_pairs(methods: list[str], apart: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    counts = {"wins": 7, "ties": 1, "losses": 3}
    return pd.DataFrame(
        {"method_a": a, "method_b": b, "mean_difference": rng.normal(), **counts}
        | {"effect_size": rng.uniform(-1, 1), "p": rng.uniform()}
        | {"separated": bool(apart.loc[a, b])}
        for a, b in combinations(methods, 2)
    )


def random_apart(methods: list[str], share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((len(methods), len(methods))) < share, 1)
    return pd.DataFrame(upper | upper.T, methods, methods)


def all_figures(names: list[str], measures: list[str]) -> list[Svg]:
    """One of each figure over these names."""
    rng = np.random.default_rng(0)
    m, n = len(names), len(measures)
    ranks = pd.Series(np.sort(rng.uniform(1, m, m)), names)
    apart = random_apart(names, 0.3, 1)
    corr = pd.DataFrame(0.2, measures, measures)
    corr.iloc[:3, :3] = 0.95
    ends = {"weight": 1 / n, "weight_low": 0.0, "weight_high": 0.9}
    intervals = pd.DataFrame(ends, index=measures)
    drawn = np.column_stack([rng.permutation(m) + 1.0 for _ in range(4)])
    orders = pd.DataFrame(drawn, names, ["a", "b", *measures[:2]])
    points = pd.DataFrame(rng.normal(size=(m, 2)), names, ["x", "y"])
    arrows = pd.DataFrame(rng.normal(size=(n, 2)), measures, ["x", "y"])
    return [
        critical_difference(ranks, cliques(apart), 1.5),
        pairwise_matrix(frame_of_pairs(names, apart), names, "p"),
        correlation_graph(corr, 0.9, [measures[:3]], measures[2:]),
        weight_intervals(intervals),
        rank_acceptability(pd.DataFrame(rng.dirichlet(np.ones(m), m), names, range(1, m + 1))),
        bump(orders),
        gaia(points, arrows, (1.0, 0.2), 0.8),
    ]


def test_hostile_names_are_text_in_every_figure():
    for svg in all_figures(HOSTILE, [f"m {name}" for name in HOSTILE]):
        holds_only_text(svg)
    for svg in all_profile_figures(HOSTILE, HOSTILE):
        holds_only_text(svg)
    ranks = pd.Series(np.arange(1.0, len(HOSTILE) + 1), HOSTILE)
    lines = profile_lines(curves_of(HOSTILE), "binomial", "")
    for svg in (critical_difference(ranks, [HOSTILE]), lines):
        shown = " ".join(parse(svg).itertext())
        assert all(terminal(name) in shown for name in HOSTILE)


@pytest.mark.parametrize("names", [["a", "b"], [f"method-{i}" for i in range(12)], LONG])
def test_figures_have_titles_and_their_labels_stay_inside_and_do_not_touch(names):
    long = "a_measure_with_an_uncommonly_long_name_of_its_own"
    figures = all_figures(names, ["hamming_loss", "f1", long, "recall"])
    for svg in figures:
        labels_stay_inside_and_apart(svg)
    for root in map(parse, figures):
        assert root.get("role") == "img" and root[0].tag == f"{NS}title" and root[0].text
        assert root[1].tag == f"{NS}desc" and len(root[1].text) > 20


@pytest.mark.filterwarnings("ignore:the graph of unseparated methods")
def test_hundreds_of_methods_fall_back_to_the_best_thirty():
    names = [f"method-{i:03d}" for i in range(200)]
    for svg in all_figures(names, ["f1", "recall", "coverage", "one_error"]):
        shown = {content(node).split("  ")[0] for node in texts(parse(svg))}
        assert len(shown & {*names}) <= TOP, svg.title
    pairs = frame_of_pairs(names, random_apart(names, 0.5, 0))
    assert len(str(escape(pairwise_matrix(pairs, names, "p")))) < 250_000


@given(m=st.integers(2, 30), share=st.floats(0, 1), seed=st.integers(0, 999))
def test_bars_join_exactly_the_pairs_that_are_not_separated(m, share, seed):
    names = [f"m{i}" for i in range(m)]
    apart = random_apart(names, share, seed)
    groups = cliques(apart)
    ranks = pd.Series(1 + np.arange(m) * 0.97, names)
    root = parse(critical_difference(ranks, groups))
    shown = [members for _, members in stacked_bars(groups, dict(zip(names, ranks, strict=True)))]
    paths = classes(root, "path", "leader") + classes(root, "path", "elbow")
    drops = {float(path.get("d").split()[0][1:]): i for i, path in enumerate(paths)}

    def at(x: float) -> int:
        return min(drops.items(), key=lambda item: abs(item[0] - x))[1]

    joined = set()
    for bar in classes(root, "line", "bar"):
        a, b = at(float(bar.get("x1"))), at(float(bar.get("x2")))
        assert b == a + 1, "a solid stretch joins neighbours"
        assert not apart.iloc[a, b]
        joined.add((a, b))
    assert joined == {(i, i + 1) for i in range(m - 1) if not apart.iloc[i, i + 1]}
    for group in shown:
        assert not apart.iloc[group, group].to_numpy().any()


def test_a_bar_is_broken_over_a_method_that_does_not_belong():
    ranks = pd.Series([1.0, 2.0, 3.0], list("abc"))
    root = parse(critical_difference(ranks, [["a", "c"], ["b", "c"]]))
    assert len(classes(root, "line", "gap")) == len(classes(root, "line", "bar")) == 1
    assert len(classes(root, "circle", "bar-dot")) == 2


def test_bars_over_shared_methods_stand_on_levels_of_their_own():
    ranks = pd.Series(np.arange(1.0, 7), list("abcdef"))
    root = parse(critical_difference(ranks, [list("abc"), list("bcd"), list("cde"), list("ef")]))
    reach: dict[float, list[tuple[float, float]]] = {}
    for bar in classes(root, "line", "bar"):
        stretch = float(bar.get("x1")), float(bar.get("x2"))
        reach.setdefault(float(bar.get("y1")), []).append(stretch)
    assert len(reach) == 3
    for stretches in reach.values():
        for (_, end), (start, _) in pairwise(sorted(stretches)):
            assert end <= start, "stretches of one bar meet, and two bars never do"


def test_the_ruler_is_as_long_as_the_critical_difference():
    root = parse(critical_difference(pd.Series([1.0, 2.0, 3.5], list("abc")), [list("abc")], 1.25))
    (ruler,) = classes(root, "path", "ruler")
    xs = [float(pair.split()[0]) for pair in re.split("[ML]", ruler.get("d")) if pair]
    ticks = {content(t): float(t.get("x")) for t in texts(root) if content(t) in "1234"}
    assert max(xs) - min(xs) == pytest.approx(1.25 * (ticks["2"] - ticks["1"]), abs=0.05)


def test_cliques_of_the_methods_that_are_drawn():
    places = {"a": 0.0, "b": 20.0, "c": 40.0}
    groups = [["a", "b", "c"], ["c", "d"], ["b", "d"]]
    assert stacked_bars(groups, places) == [(0, [0, 1, 2])]
    assert stacked_bars([["a"], ["b"]], places) == []


def test_the_matrix_frames_the_separated_pairs():
    names = [f"m{i}" for i in range(9)]
    apart = random_apart(names, 0.4, 3)
    root = parse(pairwise_matrix(frame_of_pairs(names, apart), names, "p"))
    assert len(classes(root, "rect", "sep")) == int(np.triu(apart, 1).sum())
    assert len(classes(root, "rect", "fpos")) + len(classes(root, "rect", "fneg")) == 36
    assert sum(content(t) == "7/1/3" for t in texts(root)) == 36


def test_differences_of_float_noise_have_no_sign():
    pairs = frame_of_pairs(["a", "b"], random_apart(["a", "b"], 0, 0)).assign(mean_difference=1e-17)
    assert "0" in [content(t) for t in texts(parse(pairwise_matrix(pairs, ["a", "b"], "p")))]


def test_arcs_join_the_pairs_above_the_threshold():
    rng = np.random.default_rng(5)
    names = [f"measure{i}" for i in range(10)]
    upper = np.triu(rng.random((10, 10)), 1)
    corr = pd.DataFrame(upper + upper.T + np.eye(10), names, names)
    root = parse(correlation_graph(corr, 0.7, [names[:4]], names[:5]))
    arcs = [p for p in root.iter(f"{NS}path") if "A" in p.get("d")]
    assert len(arcs) == int((upper > 0.7).sum())
    hollow = [c for c in root.iter(f"{NS}circle") if "fbg" in c.get("class")]
    assert len(hollow) == 5


def test_bars_of_weights_span_their_interval():
    row = {"weight": 0.2, "weight_low": 0.1, "weight_high": 0.6}
    root = parse(weight_intervals(pd.DataFrame(row, index=["f1"])))
    (bar,), (axis,) = classes(root, "rect", "faccent"), classes(root, "line", "axis")
    whole = float(axis.get("x2")) - float(axis.get("x1"))
    assert float(bar.get("width")) == pytest.approx(0.5 * whole, abs=0.02)
    assert "0.100 – 0.600" in [content(t) for t in texts(root)]


def test_strips_of_acceptability_fill_the_axis():
    shares = pd.DataFrame(
        [[0.5, 0.3, 0.2], [0.0, 0.5, 0.5], [0.5, 0.2, 0.3]], list("abc"), [1, 2, 3]
    )
    root = parse(rank_acceptability(shares))
    rects = classes(root, "rect", "faccent")
    assert len(rects) == 8
    axis = classes(root, "line", "axis")[0]
    whole = float(axis.get("x2")) - float(axis.get("x1"))
    assert sum(float(r.get("width")) + 0.6 for r in rects) == pytest.approx(3 * whole, abs=0.2)


def test_a_line_is_broken_where_a_method_was_left_out():
    ranks = pd.DataFrame(
        {"now": [1.0, 2.0, 3.0], "without": [1.0, np.nan, 2.0], "other": [2.0, 1.0, 3.0]},
        list("abc"),
    )
    root = parse(bump(ranks))
    lines = [n for n in root.iter(f"{NS}line") if "grid" not in n.get("class")]
    assert len(lines) == 4
    assert {n.get("class") for n in classes(root, "line", "thick")} == {"c0 thick"}, (
        "b is first where its line is broken"
    )


def test_a_picture_in_the_rows_has_one_axis():
    means = [[0.25, 0.1, 0.4], [-0.25, -0.5, 0.0], [0.5, np.nan, np.nan]]
    drawn, axis, x = rungs(pd.DataFrame(means, columns=["mean", "low", "high"]), "mean", True)
    first, second, third = map(parse, drawn)
    assert (x.low, x.high) == (-0.5, 0.5) and first.get("aria-hidden") == "true"
    at = [classes(root, "circle", "faccent")[0].get("cx") for root in (first, second, third)]
    assert at == ["72.50%", "27.50%", "95.00%"]
    (line,) = classes(first, "line", "whisker")
    assert (line.get("x1"), line.get("x2")) == ("59.00%", "86.00%")
    assert not classes(third, "line", "whisker") and classes(third, "line", "zero")
    assert "mean" in str(axis.__html__())


def test_single_runs_are_dots_on_the_same_axis():
    table = pd.DataFrame({"mean": [0.2, 0.4], "low": np.nan, "high": np.nan}, ["a", "b"])
    drawn, _, x = rungs(table, "f1", False, {"a": [0.1, 0.3], "gone": [9.0]})
    dots = [[dot.get("cx") for dot in classes(parse(svg), "circle", "single")] for svg in drawn]
    assert (x.low, x.high) == (0.1, 0.4) and dots == [["5.00%", "65.00%"], []]


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_inside(low, span):
    ticks = Scale(low, low + span, 0, 1).ticks(6)
    assert 2 <= len(ticks) <= 14
    assert all(low - span * 1e-6 <= t <= low + span * (1 + 1e-6) for t in ticks)


def test_gaia_places_every_label_of_a_crowd():
    rng = np.random.default_rng(2)
    names = [f"method{i}" for i in range(14)], [f"measure_{i}" for i in range(16)]
    methods = pd.DataFrame(rng.normal(0, 0.05, (14, 2)), names[0], ["x", "y"])
    measures = pd.DataFrame(rng.normal(0, 1, (16, 2)), names[1], ["x", "y"])
    drawn = gaia(methods, measures, (1.0, 0.0), 0.7)
    labels_stay_inside_and_apart(drawn)
    root = parse(drawn)
    assert float(root.get("viewBox").split()[2]) == WIDTH


def test_gaia_says_which_labels_have_no_room():
    crowd, measures = (
        pd.DataFrame(0.001, [f"a_{what}_with_quite_a_long_name_{i}" for i in range(30)], ["x", "y"])
        for what in ("method", "measure")
    )
    root = parse(gaia(crowd, measures, (1.0, 0.0), 0.7))
    shown = [content(t) for t in texts(root)]
    missing = 60 - len(shown) + any("no room" in t for t in shown)
    assert (f"no room for {missing} names: see the table" in shown) == (missing > 0)


KS = np.arange(1, 15)


def curves_of(methods: list[str], parameters: np.ndarray = KS, band: float = 0.02) -> pd.DataFrame:
    """Profiles that rise from .1 or so to .6 or so, in another order at the end than at the
    beginning.
    """
    rng = np.random.default_rng(0)
    at = np.linspace(0, 1, len(parameters))
    parts = []
    for _ in methods:
        loss = rng.uniform(0.08, 0.16) + rng.uniform(0.4, 0.6) * at**0.6
        columns = {"loss": loss, "low": loss - band, "high": loss + band}
        parts.append(pd.DataFrame(columns, parameters))
    return pd.concat(parts, keys=methods, names=["method", "parameter"])


def ratios_of(methods: list[str], datasets: list[str], parameters: np.ndarray = KS) -> pd.DataFrame:
    """Ratios that fall from above 1 to below it; the first and the last quarter are significant."""
    rng = np.random.default_rng(0)
    at = np.linspace(0, 1, len(parameters))
    parts = {}
    for d in datasets:
        for a, b in combinations(methods, 2):
            ratio = rng.uniform(1.1, 1.6) - rng.uniform(0.3, 0.8) * at
            far = (at < 0.25) | (at > 0.75)
            columns = {"position": at, "ratio": ratio, "significant": far}
            parts[d, a, b] = pd.DataFrame(columns, parameters)
    return pd.concat(parts, names=["dataset", "method_a", "method_b", "parameter"])


def crossings_of(ratios: pd.DataFrame, certain: bool = True) -> pd.DataFrame:
    rows = [(*key, *key[1:]) for key in dict.fromkeys(key[:3] for key in ratios.index)]
    columns = ["dataset", "method_a", "method_b", "below", "above"]
    return pd.DataFrame(rows, columns=columns).assign(position=0.5, certain=certain)


def all_profile_figures(methods: list[str], datasets: list[str]) -> list:
    ratios = ratios_of(methods[:4], datasets)
    pairs, unsure = list(combinations(methods[:4], 2)), crossings_of(ratios, False)
    return [
        profile_lines(curves_of(methods), "binomial", f"Profiles on {datasets[0]}"),
        profile_lines(curves_of(methods, ALPHAS), "polynomial", "Profiles"),
        ratio_panels(ratios, crossings_of(ratios), pairs, "binomial", "Ratios"),
        ratio_panels(ratios, unsure, [tuple(methods[:2])], "polynomial", "Ratios"),
    ]


@pytest.mark.parametrize("methods", [["a", "b"], [f"method-{i}" for i in range(8)], LONG])
@pytest.mark.parametrize("datasets", [["birds"], [f"dataset_{i}" for i in range(6)], LONG[:14]])
def test_labels_stay_inside_and_do_not_touch(methods, datasets):
    for svg in all_profile_figures(methods, datasets):
        labels_stay_inside_and_apart(svg)


def test_every_line_has_its_name_and_its_band_up_to_eight_methods():
    root = parse(profile_lines(curves_of([f"m{i}" for i in range(8)]), "binomial", ""))
    assert {f"m{i}" for i in range(8)} <= set(map(content, texts(root)))
    assert len(classes(root, "path", "thick")) == 8
    assert len([n for n in root.iter(f"{NS}path") if n.get("fill-opacity") == "0.13"]) == 8
    bare = curves_of([f"m{i}" for i in range(8)], band=np.nan)
    without = parse(profile_lines(bare, "binomial", ""))
    assert len([n for n in without.iter(f"{NS}path") if n.get("fill-opacity") == "0.13"]) == 0


def test_thirty_lines_differ_in_colour_or_dash_and_three_hundred_fall_back_to_the_first():
    for n in (30, 300):
        root = parse(profile_lines(curves_of([f"m{i}" for i in range(n)]), "binomial", ""))
        lines = [n for n in classes(root, "path", "thin") if n.get("stroke-opacity") is None]
        assert len(lines) == TOP
        assert len({(line.get("class"), line.get("stroke-dasharray")) for line in lines}) == TOP


def test_the_axis_of_alpha_is_logarithmic_and_that_of_k_has_its_ends():
    root = parse(profile_lines(curves_of(["a", "b"], ALPHAS), "polynomial", ""))
    ends = ("1", "10", "100", "1000")
    at = {content(n): float(n.get("x")) for n in texts(root) if content(n) in ends}
    assert len(at) == 4 and np.allclose(np.diff(list(at.values())), at["10"] - at["1"], atol=0.05)
    root = parse(profile_lines(curves_of(["a", "b"]), "binomial", ""))
    assert {"1", "14"} <= {content(n) for n in classes(root, "text", "muted")}


def test_a_circle_marks_a_crossing():
    ratios = ratios_of(["a", "b"], ["birds"])
    root = parse(ratio_panels(ratios, crossings_of(ratios), [("a", "b")], "binomial", ""))
    assert len(classes(root, "circle", "fbg")) == 1
    assert {"↑ a better", "↓ b better", "birds"} <= set(map(content, texts(root)))


def test_a_pair_may_be_drawn_either_way_round():
    ratios = ratios_of(["a", "b"], ["birds", "flags"])
    one, other = (
        ratio_panels(ratios, crossings_of(ratios), [p], "binomial", "")
        for p in (("a", "b"), ("b", "a"))
    )
    turned = ratios.assign(ratio=1 / ratios["ratio"]).rename(index={"a": "b", "b": "a"})
    mirrored = ratio_panels(turned, crossings_of(ratios), [("b", "a")], "binomial", "")
    assert other.parts == mirrored.parts != one.parts


def test_twice_and_half_lie_equally_far_from_one():
    at = np.linspace(0, 1, 14)
    frame = pd.DataFrame({"position": at, "ratio": 4.0 ** (1 - 2 * at), "significant": False}, KS)
    names = ["dataset", "method_a", "method_b", "parameter"]
    ratios = pd.concat({("d", "a", "b"): frame}, names=names)
    root = parse(ratio_panels(ratios, crossings_of(ratios)[:0], [("a", "b")], "binomial", ""))
    small = [n for n in classes(root, "text", "small") if n.get("text-anchor") == "end"]
    y = {content(n): float(n.get("y")) for n in small}
    assert y["1"] - y["2"] == pytest.approx(y["0.5"] - y["1"], abs=0.02)


@pytest.mark.parametrize("ratio", [np.inf, 0.0, np.nan])
def test_a_loss_of_zero_breaks_nothing(ratio):
    ratios = ratios_of(["a", "b"], ["birds", "flags"])
    ratios.iloc[:3, ratios.columns.get_loc("ratio")] = ratio
    root = parse(ratio_panels(ratios, crossings_of(ratios), [("a", "b")], "binomial", ""))
    assert not outside(root)
    assert "nan" not in " ".join(n.get("d", "") for n in root.iter(f"{NS}path"))


def test_many_datasets_are_drawn_and_the_farthest_named():
    datasets = [f"d{i}" for i in range(40)]
    none = pd.DataFrame(columns=["method_a", "method_b"])
    ratios = ratios_of(["a", "b"], datasets)
    root = parse(ratio_panels(ratios, none, [("a", "b")], "binomial", ""))
    assert len({content(n) for n in texts(root)} & set(datasets)) == NAMED
