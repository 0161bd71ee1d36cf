"""The reader's question, "Is A better than B?": the verdict in a line, the differences by measure,
and what would settle it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed
from mlflow_mleval.analysis.recommendation import CLOSE, NO, YES, Question, Verdict
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import Asked, Data, Said, Sentence, claim, joined, listed, name
from mlflow_mleval.report.text import confidence, number
from mlflow_mleval.sentences import count, in_words

#: Measures in whose units a verdict by all together is told; rows of the forest plot.
TOLD, ROWS = 2, 24
NOTHING = "No number that anybody would collect."
CLAIMS = {YES: "use one", NO: "separated", CLOSE: "best set"}
_MORE = {
    "answers": "more questions",
    "instances": "more instances",
    "repeats": "more runs of each, with other seeds",
    "datasets": "more datasets",
}


def title(q: Question) -> str:
    return f"Is {name(q.a)} better than {name(q.b)}?"


def sentence(c: Comparison, q: Question) -> Sentence:
    """The question and its verdict."""
    v = q.verdict
    key = CLAIMS[v.word()] if v.unit else "ahead"
    return Sentence(f"{title(q)} {v.word()}: {_told(c, q, v)}", claim(key))


def _told(c: Comparison, q: Question, v: Verdict) -> str:
    """By how much, with its interval, of what; and why no more can be said."""
    one, sides, close = v.main, v.crossing, v.word() == CLOSE
    if sides and close:
        where = " and ".join(
            f"{name(m)} on {listed(sides[side])}" for m, side in ((q.a, "a"), (q.b, "b"))
        )
        return f"it depends. Certainly better are {where}. {_of(c, v)}"
    assert one is not None
    size = float(one["difference"])
    better, worse = (q.a, q.b) if size >= 0 else (q.b, q.a)
    what = _what(c, one, v, better, worse)
    by = _by(c, one)
    on = f" on {name(one['dataset'])}" if one["dataset"] else ""
    mean = float(q.measures.loc[c.on, "difference"]) if c.on != FUSED == one["measure"] else 0.0
    own = ""
    if size and one["measure"] == FUSED and not one["dataset"]:
        own = f", {_own(c, q, better)}"
    if sides:
        against = listed(sides["b" if better == q.a else "a"])
        lead = f"{name(better)} is better on average{by}, but certainly worse on {against}"
    elif mean * size < 0 and close:
        first = f"{name(worse)} is ahead {what} by its mean ({number(abs(mean), 2)})"
        lead = f"{first}, {name(better)} as the test compares them{by}"
    elif mean * size < 0:
        lead = f"{name(better)} is better than {name(worse)} {what} as the test compares them{by}"
        lead += f", but {name(worse)} by its mean ({number(abs(mean), 2)})"
    elif not close:
        lead = f"{name(better)} is better than {name(worse)} {what}{on}{by}{own}"
    elif size:
        lead = f"{name(better)} is ahead {what}{on}{by}{own}"
    else:
        lead = f"they are level {what}{on}"
    return f"{lead}. {_of(c, v)}"


def _what(c: Comparison, row: Mapping[str, Any], v: Verdict, better: str, worse: str) -> str:
    """In what one of two is better; where the ranking has them the other way round, also why."""
    if row["measure"] != FUSED or c.on != FUSED:
        return f"in {name(c.on if row['measure'] == FUSED else row['measure'])}"
    if row["dataset"] or c.order.index(better) < c.order.index(worse):
        return "overall"
    if v.unit == "datasets" and row["n"] < len(c.study.datasets):
        return f"on the {row['n']:.0f} datasets that both have"
    return "as the test compares them"


def _by(c: Comparison, row: Mapping[str, Any]) -> str:
    """By how much the better of two is so, with the interval of the test."""
    size, low, high = (float(row[key]) for key in ("difference", "low", "high"))
    if size < 0:
        size, low, high = -size, -high, -low
    by = f"net flow {number(size, 2)}" if row["measure"] == FUSED else number(size, 2)
    if np.isfinite([low, high]).all():
        level = confidence(c.options["alpha"])
        return f" ({by}, {level} interval {number(low, 2)} to {number(high, 2)})"
    alone = row["measure"] == FUSED and len(c.study.datasets) == 1
    return "" if alone else f" ({by})"


def _own(c: Comparison, q: Question, better: str) -> str:
    """The difference by the measures of most weight, in their own units."""
    if c.on != FUSED:
        return f"{number(abs(q.measures.loc[c.on, 'difference']), 2)} on average"
    sizes = q.measures.loc[c.fusion.by_weight[:TOLD], "difference"]
    sizes = sizes * (1 if better == q.a else -1)
    parts = [
        f"{number(abs(size), 2)} {'better' if size >= 0 else 'worse'} in {name(m)}"
        for m, size in sizes.items()
    ]
    return f"{'but on average ' if (sizes < 0).all() else ''}{joined(parts)}"


def _of(c: Comparison, v: Verdict) -> str:
    """Of what it is a claim, or why it is none."""
    n = len(c.study.datasets)
    if v.unit:
        units = int(v.main["n"]) if v.main else 0
        again = f"these {in_words(n)} datasets trained again" if n > 1 else v.of
        of = {
            "datasets": f"{v.of}, from {units}" if units < n else v.of,
            "repeats": f"{again}, {_runs(c, v)}",
            "folds": f"{again}, {units} folds{' each' if n > 1 else ''}",
        }
        return f"For {of.get(v.unit, f'these {units:,} {v.unit}')}."
    if c.decides_over:
        return "These two were not tested against each other."
    if n > 1:
        return f"{in_words(n).capitalize()} datasets cannot tell methods apart."
    if c.study.repeats is None:
        return "One run each: chance is not excluded."
    return "Too few runs of each to exclude chance."


def _runs(c: Comparison, v: Verdict) -> str:
    """How many runs of each method, on each dataset where there are several."""
    runs = (v.rows if v.by_dataset.empty else v.by_dataset)["n"].astype(int)
    least = f"{runs.min()} to " if runs.min() < runs.max() else ""
    each = " method on each" if len(c.study.datasets) > 1 else ""
    return f"{'up to ' if c.study.filled else least}{runs.max()} runs of each{each}"


def needed(c: Comparison, v: Verdict) -> str:
    """What would settle it; empty where it is settled."""
    if v.word() != CLOSE or v.crossing:
        return ""
    n = len(c.study.datasets)
    if not v.unit and n > 1:
        more = count(max(datasets_needed(v.alpha) - n, 1), "more dataset")
        return f"{more}, or three runs of each method on every one of these."
    if not v.unit:
        return f"{v.needed} {_MORE['repeats']}."
    if v.needed and v.unit in _MORE:
        return f"About {v.needed:,} {_MORE[v.unit]}, if the difference stays what it is."
    if v.unit == "folds":
        return "Runs with other seeds, or answers one by one."
    return NOTHING


def block(c: Comparison, q: Question, texts: Sequence[str], command: str) -> Asked:
    """The verdict with its forest plot, and the sentences of the decision."""
    about: dict[str, Any] = {
        "question": title(q),
        "said": _said(c, q, q.verdict, command),
        "pair": {"a": q.a, "b": q.b},
    }
    return Asked(texts, "answer", depth=doc.ALWAYS, **about)


def _said(c: Comparison, q: Question, v: Verdict, command: str) -> Said:
    rows = v.rows.assign(decides=True)
    unjudged = {"decides": False, "separated": False, "low": np.nan, "high": np.nan}
    if set(rows["measure"]) == {FUSED}:
        alone = q.measures.rename_axis("measure").reset_index().assign(dataset="", **unjudged)
        rows = pd.concat([rows, alone], ignore_index=True)
    if not v.by_dataset.empty:
        described = {"decides": False} if v.crossing else unjudged
        rows = pd.concat([rows, v.by_dataset.assign(**described)], ignore_index=True)
    told = rows.head(ROWS).astype({"separated": bool, "decides": bool})
    reaches = _reaches(c, told)
    settles = needed(c, v)
    return Said(
        v.word(),
        _told(c, q, v),
        settles,
        command if settles not in ("", NOTHING) else "",
        [_row(row, c.on, reaches) for row in told.to_dict("records")],
    )


def _reaches(c: Comparison, told: pd.DataFrame) -> dict[str, float]:
    """How far the scale of a measure without an interval goes: those between 0 and 1 share one, so
    that a small difference looks small; others have that between the best and the worst mean.
    """
    values = c.study.values
    shares = {*values.columns[(values.min() >= 0) & (values.max() <= 1)]}
    bare = told[~np.isfinite(told["low"].astype(float)) & told["measure"].isin(shares)]
    means = values.groupby(level="method").mean()
    reaches = (means.max() - means.min()).to_dict()
    return reaches | dict.fromkeys(shares, float(bare["difference"].abs().max()))


def _row(row: dict[str, Any], on: str, reaches: dict[str, float]) -> Data:
    """A row of the forest plot: places in percent of a scale of its own, and what is written."""
    low, size, high = (float(row[key]) for key in ("low", "difference", "high"))
    ends = [abs(x) for x in (low, high) if np.isfinite(x)]
    if not ends and row["measure"] in reaches:
        ends = [reaches[row["measure"]]]
    reach = 1.12 * max(abs(x) for x in (size, *ends, 1e-12) if np.isfinite(x))
    measure = name(row["measure"])
    if row["measure"] == FUSED:
        measure = "all together, net flow" if on == FUSED else f"{name(on)}, net flow"
    label = f"{measure} on {name(row['dataset'])}" if row["dataset"] else measure
    limits = [x if np.isfinite(x) else None for x in (low, high)]
    places = [None if x is None else round(50 + 50 * x / reach, 3) for x in (*limits, size)]
    interval = "" if None in limits else f"{number(low, 2)} to {number(high, 2)}"
    sign = "+" if size > 0 else ""
    return {
        "label": label,
        "places": places,
        "difference": sign + number(size, 2),
        "interval": interval,
        "data": {
            "measure": row["measure"],
            "part": row["dataset"],
            "low": limits[0],
            "high": limits[1],
            "size": size,
            "apart": bool(row["separated"]),
            "decides": bool(row["decides"]),
            "reach": reach,
            "own": row["measure"] != FUSED,
        },
    }


def data(q: Question) -> Data:
    """For JSON: the pair, its verdict, and each measure alone."""
    v = q.verdict
    verdict = {"of": v.of, "over": v.unit, "verdict": v.word(), "needed": v.needed}
    measures = q.measures.rename_axis("measure").reset_index()
    found = {**verdict, "crossing": v.crossing, "rows": v.rows, "measures": measures}
    return {"question": {"a": q.a, "b": q.b, **found}}
