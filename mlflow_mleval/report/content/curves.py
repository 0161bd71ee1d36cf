"""The curves of one run's scores: precision against recall, ROC, and what probabilities keep of
what they promise.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.from_sums import MICRO
from mlflow_mleval.measures.registry import ONE_LABEL
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import PAGE, Figure, Section, Table
from mlflow_mleval.report.figures.lines import SCORE_CURVES_NAMED, reliability, score_curves
from mlflow_mleval.report.svg import TOP, Svg
from mlflow_mleval.report.text import terminal
from mlflow_mleval.validation import present
from mlflow_mleval.words import count, plural

#: More labels than these are left to the files beside the report.
_SHOWN = 200


@dataclass(frozen=True)
class Curves:
    """The curves that an evaluation gives."""

    ev: Evaluation

    @cached_property
    def whole(self) -> Mapping[str, float]:
        """The areas under the curves of all label cells together."""
        counts = present(self.ev.total.counts_by_score).pooled
        return {
            "average_precision": float(counts.average_precision()[0][0]),
            "auroc": float(counts.auroc()[0][0]),
        }

    @cached_property
    def areas(self) -> pd.DataFrame:
        """The areas by label, of labels with instances, those with the lowest first."""
        table = self.ev.labels
        if "average_precision" not in table:
            return table[:0]
        return table[table["support"] > 0].sort_values(
            ["average_precision", "support"], ascending=[True, False], kind="stable"
        )

    @cached_property
    def points(self) -> pd.DataFrame:
        """The points of the curves that are drawn."""
        return self.ev.curves(list(self.areas.index[:TOP]))

    @cached_property
    def bins(self) -> pd.DataFrame:
        """What probabilities promise and what is true, all together."""
        return self.ev.reliability([])

    @property
    def together(self) -> str:
        """What the curve of all is called."""
        if present(self.ev.total.counts_by_score).n_classes == 1:
            return terminal(str(self.ev.label_names[-1]))
        return "all classes" if self.ev.kind == ONE_LABEL else "all labels"

    @cached_property
    def figures(self) -> dict[str, Svg]:
        """The drawings by name, as far as there is something to draw."""
        found = {}
        if not np.isnan(self.whole["average_precision"]):
            lines = self._lines("average_precision", ["recall", "precision"], None)
            axes = "Recall", "Precision", "average precision"
            found["precision_recall"] = score_curves(*lines, axes, "Precision against recall")
        if not np.isnan(self.whole["auroc"]):
            lines = self._lines("auroc", ["fpr", "recall"], (0.0, 0.0))
            axes = "False positive rate", "Recall (true positive rate)", "AUROC"
            found["roc"] = score_curves(*lines, axes, "ROC curves", diagonal=True)
        if len(self.bins):
            bins = self.bins[["mean_score", "share"]].to_numpy(float)
            found["reliability"] = reliability(bins, "Reliability of the probabilities")
        return found

    def _lines(
        self, area: str, columns: list[str], start: tuple[float, float] | None
    ) -> tuple[dict[str, tuple[np.ndarray, float]], list[tuple[str, np.ndarray]]]:
        """The named curves with their areas, and the others; each from its start, else from recall
        0 with the first precision.
        """

        def curve(part: pd.DataFrame) -> np.ndarray:
            found = part[columns].to_numpy(float)
            return np.vstack([[0.0, found[0, 1]] if start is None else start, found])

        micro = self.points["scope"] == MICRO
        lines = {self.together: (curve(self.points[micro]), self.whole[area])}
        others: list[tuple[str, np.ndarray]] = []
        if present(self.ev.total.counts_by_score).n_classes > 1:
            drawn: dict[Hashable, pd.DataFrame] = dict(
                iter(self.points[~micro].groupby("label", sort=False))
            )
            for i, label in enumerate(self.areas.index[:TOP]):
                text, value = terminal(str(label)), float(self.areas[area].iloc[i])
                if np.isnan(value):
                    continue
                if i < SCORE_CURVES_NAMED:
                    lines[text + " (label)" * (text in lines)] = curve(drawn[label]), value
                else:
                    others.append((text, curve(drawn[label])))
        return lines, others


def curves_section(curves: Curves | None, folds: int, noun: str) -> Section | None:
    """The curves with what they say, and the areas in numbers."""
    if curves is None or not curves.figures:
        return None
    areas, drawn = curves.areas, curves.figures
    several = present(curves.ev.total.counts_by_score).n_classes > 1
    which = _which(curves, noun) if several else ""
    over = " Each curve joins the instances of all folds." if folds else ""
    columns = [
        doc.names(noun, areas.index[:_SHOWN]),
        doc.counts("support", areas["support"][:_SHOWN]),
        *(
            doc.decimals(head, areas[c][:_SHOWN], 3)
            for c, head in (
                ("average_precision", "average precision"),
                ("auroc", "AUROC"),
                ("brier_score", "Brier score"),
            )
            if c in areas
        ),
    ]
    table = Table(
        columns,
        len(areas),
        title="Areas in numbers, the lowest first",
        things=plural(noun),
        folded=True,
        depth=PAGE,
    )
    captions = {
        "precision_recall": (
            f"A lower threshold finds more of what is true, and more that is not. {which}{over}"
        ),
        "roc": (
            f"{f'The same {plural(noun)}. ' if several else ''}Scores that tell nothing would "
            "follow the dashed line."
        ),
        "reliability": _reliability_caption(curves),
    }
    tables = {"precision_recall": table} if several else {}
    blocks = [Figure(svg, captions[name], tables.get(name)) for name, svg in drawn.items()]
    return Section("curves", "Curves", blocks, hint="precision and recall, ROC, reliability")


def _which(curves: Curves, noun: str) -> str:
    """What the lines are."""
    nouns, n = plural(noun), len(curves.areas)
    together = (
        f"every {noun} against the rest, pooled"
        if noun == "class"
        else "all labels of all instances, pooled"
    )
    if n <= SCORE_CURVES_NAMED:
        return f"Thick: {together}. Thin: each {noun}."
    drawn, rest = min(TOP, n) - SCORE_CURVES_NAMED, n - SCORE_CURVES_NAMED
    others = f"the {rest:,} others" if rest > 1 else "the other one"
    grey = f" Grey: {f'{drawn} of ' if drawn < rest else ''}{others}."
    return f"Thick: {together}. Named: the {nouns} with the lowest average precision.{grey}"


def _reliability_caption(curves: Curves) -> str:
    """What a dot is, and on which side of the diagonal."""
    bins = count(len(curves.bins), "bin")
    what, mean, share = (
        ("instances", "highest probabilities", "whose class is right")
        if curves.ev.kind == ONE_LABEL
        else ("labels of instances", "probabilities", "that is true")
    )
    each = (
        f"Each dot is one of {bins} of about equally many {what}: the mean of their {mean}, and "
        f"the share {share}."
    )
    return f"{each} Below the dashed line the probabilities are too high, above it too low."
