"""Results on axes of matplotlib, which is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_mleval.errors import MlevalError
from mlflow_mleval.package import Display
from mlflow_mleval.report.figures import Point, Scale, Svg
from mlflow_mleval.report.figures.comparisons import critical_difference
from mlflow_mleval.report.figures.lines import AXES
from mlflow_mleval.report.text import shorten, terminal
from mlflow_mleval.validation import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that differ for eyes of any kind (Okabe & Ito): what leads, what is worse, all else.
_BEST, _WORSE, _REST = "#0072b2", "#b84e00", "#666666"
_NAME = 32  #: characters of a name beside an axis


def plot(result: Any, kind: str = "", ax: Any = None, **options: Any) -> Display:
    """The result drawn on the axes, or on new ones of its own."""
    kinds = _KINDS[type(result).__name__]
    kind = kind or next(iter(kinds))
    one_of(kind, "kind", tuple(kinds))
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MlevalError(
            "matplotlib is not installed, which draws plots. Run: pip install matplotlib"
        ) from error
    if ax is None:
        _, ax = pyplot.subplots(layout="constrained")
    kinds[kind](result, ax, **options)
    return Display(ax, ax.figure)


def _name_drawn(name: object) -> str:
    """A name as it is drawn: matplotlib would set what stands between dollars as a formula."""
    return shorten(terminal(name), _NAME).replace("$", r"\$")


def _named_rows(ax: Axes, names: list[str]) -> None:
    """A row for each name, the first at the top."""
    ax.set_yticks(range(len(names)), [_name_drawn(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _ranking(c: Any, ax: Axes) -> None:
    """What is compared, by method, best first; intervals apart where methods are separated."""
    intervals = c.comparison_intervals
    of_ranks = c.deciding is not None and c.deciding.critical_difference is not None
    mean = (c.ranks if of_ranks else c.flows).mean()[c.order]
    best = set(c.best_set)
    for row, method in enumerate(c.order):
        colour = _BEST if method in best else _REST
        if intervals is not None:
            ax.hlines(row, intervals.loc[method, "low"], intervals.loc[method, "high"], colour)
        ax.plot(mean[method], row, "o", color=colour)
    _named_rows(ax, c.order)
    ax.set_xlabel("mean rank" if of_ranks else f"mean {c.compared}")


class _Pen(Svg):
    """Lines and texts of a drawing on axes of matplotlib; across lie the values of its own axis."""

    def __init__(self, ax: Axes, *about: Any) -> None:
        super().__init__(*about)
        self.ax = ax
        ax.set_ylim(self.height, 0)
        ax.set_yticks([])
        ax.spines[["right", "left", "bottom"]].set_visible(False)

    def axis_above(self, scale: Scale, y: float, ticks: Iterable[float]) -> None:
        self.value = Scale(scale.start, scale.stop, scale.low, scale.high)
        self.ax.set_xlim(*map(self.value, (0, self.width)))
        self.ax.spines["top"].set_bounds(scale.low, scale.high)
        self.ax.spines["top"].set_position(("data", y))
        self.ax.xaxis.set_ticks_position("top")
        self.ax.set_xticks([*ticks])

    def path(self, points: list[Point], class_: str, **attributes: Any) -> None:
        across, down = zip(*points, strict=True)
        width = {"bar": 3, "gap": 1, "ruler": 1}.get(class_)
        colour, dash = "k" if width else _REST, ":" if class_ == "gap" else "-"
        self.ax.plot([*map(self.value, across)], down, dash, color=colour, lw=width or 0.8)

    def add(self, tag: str, content: Any = "", tip: str = "", **at: Any) -> None:
        if tag == "line":
            self.path([(at["x1"], at["y1"]), (at["x2"], at["y2"])], at["class_"])
        elif tag == "text":
            side = {None: "left", "middle": "center", "end": "right"}[at["text_anchor"]]
            self.ax.text(self.value(at["x"]), at["y"], _name_drawn(content), ha=side)


def _profiles(compared: Any, ax: Axes, dataset: str | None = None) -> None:
    """Loss from Hamming to subset 0/1, a line a method, with bands over folds."""
    dataset = compared.datasets[0] if dataset is None else dataset
    one_of(dataset, "dataset", tuple(compared.datasets))
    curves = compared.curves.xs(dataset, level="dataset")
    for method in compared.methods_on(dataset):
        curve = curves.loc[method]
        at = curve.index.to_numpy(float)
        (line,) = ax.plot(at, curve["loss"], marker=".", label=_name_drawn(method))
        ax.fill_between(at, curve["low"], curve["high"], color=line.get_color(), alpha=0.15, lw=0)
    if compared.options["family"] == "polynomial":
        ax.set_xscale("log")
    ax.set_xlabel(AXES[compared.options["family"]])
    ax.set_ylabel(f"loss on {_name_drawn(dataset)}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)


def _forest(verdict: Any, ax: Axes) -> None:
    """Candidate less champion by measure and slice, with limits; a tick at minus the margin."""
    table = verdict.table[verdict.table["verdict"] != "not judged"]
    left = len(verdict.table) - len(table)
    names = [f"{r.measure} · {r.slice}" if r.slice else r.measure for r in table.itertuples()]
    for row, one in enumerate(table.itertuples()):
        colours = {"worse": _WORSE, "better": _BEST, "not worse": _BEST}
        colour = colours.get(one.verdict, _REST)
        if np.isfinite([one.low, one.high]).all():
            ax.hlines(row, one.low, one.high, colour)
        ax.plot(one.difference, row, "o", color=colour)
        if one.margin > 0:
            ax.vlines(-one.margin, row - 0.3, row + 0.3, "k")
    _named_rows(ax, names)
    ax.axvline(0, color=_REST, lw=0.8)
    unjudged = f" ({left} without a margin not drawn)" if left else ""
    ax.set_xlabel(f"candidate less champion; right is better{unjudged}")


#: By class, its kinds of plots; the first is drawn where none is named.
_KINDS: dict[str, dict[str, Callable[..., object]]] = {
    "Comparison": {
        "ranking": _ranking,
        # Demšar's diagram: mean ranks, and bars over methods that are not separated
        "critical differences": lambda c, ax: critical_difference(
            c.ranks.mean()[c.order],
            c.cliques,
            c.deciding and c.deciding.critical_difference,
            partial(_Pen, ax),
        ),
    },
    "ProfileComparison": {"profiles": _profiles},
    "Verdict": {"forest": _forest},
}
