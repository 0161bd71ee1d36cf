"""Weights that a reader moves on a page: what the page needs so that the ranking, its strips and
the decision axis follow.
"""

import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.report.document import Slider, Sliders, Text, name, note, plain
from mlflow_mleval.report.escape import terminal
from mlflow_mleval.report.numerals import ARROWS

#: More net flows (datasets x measures x methods) than this make a page heavy; more measures than
#: this no hand moves.
FLOWS, MEASURES = 100_000, 60
#: A slider has so many steps; the weight is the largest one times the square of the way along it,
#: so that small weights can be told apart and one measure can weigh as much as twice all others
#: together.
STEPS = 200
#: The least weight a slider starts at: a command takes positive weights only.
LEAST = 1e-6


def sliders(c: Comparison, rows: int) -> Sliders | Text | None:
    """A slider and a switch a measure, beside the ranking whose first `rows` methods are shown; or
    why there are none.

    There is nothing to weigh with one measure, nor where the ranking is not the fused one.
    """
    measures, flows = c.study.measures, c.fusion.flows
    if c.on != FUSED or len(measures) < 2:
        return None
    if flows.by_measure.net.size > FLOWS or len(measures) > MEASURES or len(c.order) > rows:
        return note(
            f"The weights cannot be moved on this page: that takes at most {rows} methods, "
            f"{MEASURES} measures and {FLOWS:,} net flows, and here are {len(c.order):,}, "
            f"{len(measures):,} and {flows.by_measure.net.size:,}."
        )
    starts = _starts(c)
    most = float(f"{max(1.5 * max(starts), 2 * (len(starts) - 1) * sum(starts) / len(starts)):.3g}")
    shown = [
        Slider(
            name(m, 24),
            ARROWS[c.study.directions[m]],
            max(1, round(STEPS * math.sqrt(start / most))),
        )
        for m, start in zip(measures, starts, strict=True)
    ]
    data = {**_data(c), "starts": starts, "most": most}
    return Sliders("What if the measures had other weights?", _about(c), shown, STEPS, data)


def _starts(c: Comparison) -> list[float]:
    """By measure: the weight as it was given, or the mean over datasets, with so many digits as a
    command may hold.
    """
    weights = c.fusion.options["weights"]
    if isinstance(weights, Mapping):
        return [float(weights[m]) for m in c.study.measures]
    mean = (
        c.fusion.weights.mean()
        if weights == "entropy"
        else [1 / len(c.study.measures)] * len(c.study.measures)
    )
    return [max(float(f"{w:.4g}"), LEAST) for w in mean]


def _by_dataset(c: Comparison) -> bool:
    """Whether the weights follow from the values on each dataset."""
    return c.fusion.options["weights"] == "entropy" and bool((c.fusion.weights.nunique() > 1).any())


def _about(c: Comparison) -> str:
    """Where sliders start, and what it means to move one."""
    said = ["Move a slider or switch a measure off, and the ranking follows."]
    if _by_dataset(c):
        said.append(
            "This report has entropy weights, which differ between datasets; each slider starts "
            "at their mean. Once you move one, the weights that you see hold on every dataset."
        )
    else:
        said.append(
            "Each slider starts at the weight in this report. Weights count in proportion to "
            "each other."
        )
    if any(
        gone.kind in ("dataset", "method") and "(policy drop" in gone.reason
        for gone in c.study.excluded
    ):
        said.append(
            "What was left out for missing results stays out here, also if you switch off the "
            "measure that it lacks."
        )
    return " ".join(said)


def _data(c: Comparison) -> Mapping[str, Any]:
    """Net flows and weights in full precision, as bytes of little-endian doubles: ranks and ties
    are those of the report.
    """
    flows, study = c.fusion.flows, c.study
    alike = (flows.weights == flows.weights[0]).all()
    place = {m: i for i, m in enumerate(study.methods)}
    return {
        "methods": [plain(name(m)) for m in study.methods],
        "rows": [place[m] for m in c.order],
        "datasets": [*map(terminal, study.datasets)],
        "measures": [*map(terminal, study.measures)],
        "flows": _doubles(flows.by_measure.net),
        "weights": _doubles(flows.weights[:1] if alike else flows.weights),
        "constant": flows.by_measure.constant.astype(int).tolist()
        if c.options["drop_constant"]
        else None,
        "axis": None
        if c.plane is None
        else c.plane.measures.loc[study.measures].to_numpy().tolist(),
        "named": isinstance(c.fusion.options["weights"], str),
        "by_dataset": _by_dataset(c),
        "writable": all(map(_writable, study.measures)),
    }


def _doubles(values: Any) -> str:
    return b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def _writable(measure: str) -> bool:
    """Whether ``--weights NAME=NUMBER,…`` can name it.

    >>> [*map(_writable, ("f1", "a=b", "a,b", " a"))]
    [True, False, False, False]
    """
    return measure == terminal(measure) == measure.strip() and not set(measure) & set(",=")
