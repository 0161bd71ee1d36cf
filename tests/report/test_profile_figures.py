"""Drawings of loss profiles: they say what the frames say, whatever the names are and however many
there are.
"""

from itertools import combinations

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

from mlflow_mleval.measures.owa import ALPHAS
from mlflow_mleval.report.figures import TOP, spread
from mlflow_mleval.report.figures.lines import NAMED, profile_lines, ratio_panels
from mlflow_mleval.report.text import terminal

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


def all_figures(methods: list[str], datasets: list[str]) -> list:
    ratios = ratios_of(methods[:4], datasets)
    pairs, unsure = list(combinations(methods[:4], 2)), crossings_of(ratios, False)
    return [
        profile_lines(curves_of(methods), "binomial", f"Profiles on {datasets[0]}"),
        profile_lines(curves_of(methods, ALPHAS), "polynomial", "Profiles"),
        ratio_panels(ratios, crossings_of(ratios), pairs, "binomial", "Ratios"),
        ratio_panels(ratios, unsure, [tuple(methods[:2])], "polynomial", "Ratios"),
    ]


def test_hostile_names_are_text_in_every_figure():
    for svg in all_figures(HOSTILE, HOSTILE):
        holds_only_text(svg)
    shown = " ".join(parse(profile_lines(curves_of(HOSTILE), "binomial", "")).itertext())
    assert all(terminal(name) in shown for name in HOSTILE)


@pytest.mark.parametrize("methods", [["a", "b"], [f"method-{i}" for i in range(8)], LONG])
@pytest.mark.parametrize("datasets", [["birds"], [f"dataset_{i}" for i in range(6)], LONG[:14]])
def test_labels_stay_inside_and_do_not_touch(methods, datasets):
    for svg in all_figures(methods, datasets):
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


def test_a_method_keeps_its_colour_and_mark_from_figure_to_figure():
    whole = parse(profile_lines(curves_of(["a", "b", "c"]), "binomial", ""))
    part = parse(profile_lines(curves_of(["c", "a"]), "binomial", "", {"a": 0, "b": 1, "c": 2}))
    for root in (whole, part):
        colours = {
            n[0].text.partition(":")[0]: n.get("class") for n in classes(root, "path", "thick")
        }
        assert colours["a"] == "c0 thick" and colours["c"] == "c2 thick"


def test_the_axis_of_alpha_is_logarithmic_and_that_of_k_has_its_ends():
    root = parse(profile_lines(curves_of(["a", "b"], ALPHAS), "polynomial", ""))
    ends = ("1", "10", "100", "1000")
    at = {content(n): float(n.get("x")) for n in texts(root) if content(n) in ends}
    assert len(at) == 4 and np.allclose(np.diff(list(at.values())), at["10"] - at["1"], atol=0.05)
    root = parse(profile_lines(curves_of(["a", "b"]), "binomial", ""))
    assert {"1", "14"} <= {content(n) for n in classes(root, "text", "muted")}


def test_one_label_is_a_point():
    root = parse(profile_lines(curves_of(["a", "b"], KS[:1]), "binomial", ""))
    assert {"a", "b"} <= set(map(content, texts(root)))


def test_heavy_stretches_are_the_significant_ones_and_full_circles_the_certain_crossings():
    ratios = ratios_of(["a", "b"], ["birds"])
    root = parse(ratio_panels(ratios, crossings_of(ratios), [("a", "b")], "binomial", ""))
    assert len(classes(root, "path", "thick")) == 2 and len(classes(root, "circle", "fbg")) == 0
    assert {"↑ a better", "↓ b better", "birds"} <= set(map(content, texts(root)))
    root = parse(ratio_panels(ratios, crossings_of(ratios, False), [("a", "b")], "binomial", ""))
    assert len(classes(root, "circle", "fbg")) == 1
    alike = ratios.assign(significant=False)
    none = parse(ratio_panels(alike, crossings_of(ratios)[:0], [("a", "b")], "binomial", ""))
    assert len(classes(none, "path", "thick")) == 0


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


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10), st.floats(0.5, 10))
def test_labels_lie_apart_in_order_and_inside(places, room):
    found = np.array(spread(places, room, 0, 100))
    order = np.argsort(places, kind="stable")
    assert (np.diff(found[order]) >= room - 1e-9).all()
    assert found.min() >= -1e-9 and found.max() <= 100 + 1e-9
    if (np.diff(np.array(places)[order]) >= room).all():
        assert found == pytest.approx(places)
