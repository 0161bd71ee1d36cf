"""What the report of one run says, before it takes a form: sentences, doubts, rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.folds.summary import FoldStatistics
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.dependence import Profile
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.escape import aligned, number, pvalue, shorten, terminal
from mlflow_mleval.report.run.figures import KINDS, folds_figure, labels_figure, profile_figure
from mlflow_mleval.report.svg import Svg
from mlflow_mleval.report.words import NAME, count, listed

#: Of more labels than these, not every k of a loss profile is computed.
_PARAMETERS = 1_000
#: What the measures of a family look at.
FAMILIES = {
    "example": "label sets",
    "label": "labels",
    "ranking": "order of scores",
    "dependence": "dependence",
    "hierarchical-set": "classes and those above",
    "hierarchical-pair": "distances",
    "hierarchical-lca": "common ancestors",
    "cost": "seconds",
}
#: The measures that lead, in the order of preference, and how a sentence begins that gives them.
_LEADS = {
    "f1": "The mean F1 of an instance is {}",
    "h_f1": "The mean hierarchical F1 of an instance is {}",
    "lca_f1": "The mean LCA-based F1 of an instance is {}",
    "hamming_loss": "The share of wrong label cells is {}",
}


@dataclass(frozen=True)
class RunReport:
    """Everything that the report of one run may say.

    Attributes
    ----------
    ev : Evaluation
    method, dataset : str
    means : mapping of str to float
        The values that count: means over folds where there are folds.
    statistics : FoldStatistics or None
        Of the folds, if there are at least two.
    hierarchy : Hierarchy or None
        The classes, to show labels by their place.
    provenance : mapping of str to text
        What reproduces it.
    time : str
        When it was made.
    remarks : tuple of str
        Further doubts.
    portable : bool
        Whether the Evaluation itself lies beside the report.
    """

    ev: Evaluation
    method: str
    dataset: str
    means: Mapping[str, float]
    statistics: FoldStatistics | None = None
    hierarchy: Hierarchy | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    time: str = ""
    remarks: tuple[str, ...] = ()
    portable: bool = True

    @property
    def title(self) -> str:
        return f"{self.method} on {self.dataset}"

    @property
    def about(self) -> str:
        """What was evaluated and how, in a line."""
        ev = self.ev
        folds = [] if None in ev.sums else [count(len(ev.sums), "fold")]
        return " · ".join([count(ev.total.n, "instance"), count(len(ev.label_names), "label"), *folds, self.decision, self.time])

    @property
    def decision(self) -> str:
        """How labels were predicted, and under which conventions."""
        cut = self.ev.threshold
        rule = "label sets as given" if cut is None else f"labels with a score of at least {number(cut)}"
        if isinstance(cut, tuple):
            rule = "labels with a score of at least a threshold of their own"
        return f"{rule}, conventions {self.ev.conventions}"

    @property
    def flat(self) -> bool:
        """Whether label matrices were given, and not sets of classes."""
        return "pred_sets" not in self.ev.inputs

    @cached_property
    def labels(self) -> pd.DataFrame:
        """The labels that occur or are predicted, the worst first: lowest F1, then most instances."""
        table = self.ev.labels
        table = table[(table["support"] > 0) | (table["predicted"] > 0)]
        return table.sort_values(["f1", "support"], ascending=[True, False], kind="stable")

    @cached_property
    def measures(self) -> pd.DataFrame:
        """One row a measure in the registry's order: value, half the corrected interval, extremes over folds, all together."""
        table = pd.DataFrame({"value": self.means, "whole": self.ev.measures}, index=list(self.ev.measures), dtype=float)
        half = low = high = pd.Series(dtype=float)
        if self.statistics is not None:
            folds, found = self.ev.folds, self.statistics.table
            half, low, high = found["corrected_high"] - found["mean"], folds.min(), folds.max()
        return table.assign(half=half, low=low, high=high)

    @cached_property
    def bounded_folds(self) -> pd.DataFrame:
        """The values by fold of the measures that lie between 0 and 1."""
        return self.ev.folds[[m for m in self.ev.folds if MEASURES[m].range == (0, 1)]]

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """The binomial loss profiles over all instances, by kind; none of class sets or of one label."""
        if not self.flat or len(self.ev.label_names) < 2:
            return {}
        kinds = ["hard", "soft"] if self.ev.total.errors is not None else ["hard"]
        n = len(self.ev.label_names)
        ks = np.unique(np.linspace(1, n, min(n, _PARAMETERS)).round().astype(int))
        return {kind: self.ev.profile("binomial", ks=ks, kind=kind) for kind in kinds}

    @cached_property
    def drawings(self) -> dict[str, Callable[[], Svg]]:
        """What draws each figure, by name, as far as there is something to draw."""
        found: dict[str, Callable[[], Svg]] = {}
        if len(self.labels):
            found["labels"] = lambda: labels_figure(self.labels)
        if self.profiles:
            found["profile"] = lambda: profile_figure(self.profiles)
        if self.statistics is not None and len(self.bounded_folds.columns):
            found["folds"] = lambda: folds_figure(self.bounded_folds, self.means)
        return found

    @cached_property
    def figures(self) -> dict[str, Svg]:
        """The drawings by name."""
        return {name: draw() for name, draw in self.drawings.items()}

    def given(self, measure: str) -> str:
        """A value with its interval, if there is one."""
        value, half = self.means[measure], self.measures.loc[measure, "half"]
        if not half >= 0:
            return number(value)
        low, high = aligned([value - half, value + half])
        return f"{number(value)} (95% interval {low} to {high})"

    def sentences(self) -> list[str]:
        """The answer in a few sentences, the most important first."""
        found = [*self._lead(), *self._cardinality(), *self._labels(), *self._profile(), *self._folds()]
        return found or ["No measure could be computed."]

    def _lead(self) -> list[str]:
        means, parts = self.means, []
        lead = next((m for m in _LEADS if m in means), None)
        if lead:
            parts.append(_LEADS[lead].format(self.given(lead)))
        exact = means.get("subset_accuracy", means.get("exact_match"))
        if exact is not None:
            parts.append(f"{_percent(exact)} of the label sets are exactly right")
        if "hamming_loss" in means and lead != "hamming_loss":
            parts.append(f"{_percent(means['hamming_loss'])} of the single labels are wrong")
        return ["; ".join(parts) + "."] if parts else []

    def _cardinality(self) -> list[str]:
        found, means = self.ev.statistics, self.means
        true, pred = found["cardinality_true"], found["cardinality_pred"]
        text = f"On average {number(pred, 3)} labels of an instance are predicted where {number(true, 3)} are true"
        names = ("micro_precision", "micro_recall") if "micro_recall" in means else ("micro_h_precision", "micro_h_recall")
        if names[0] in means and names[1] in means:
            right, found_ = (_percent(means[m]) for m in names)
            text += f"; {right} of the predicted labels are right, and {found_} of the true ones are predicted"
        return [text + "."]

    def _labels(self) -> list[str]:
        table = self.labels[self.labels["support"] > 0]
        if len(table) < 2:
            return []
        never = table[table["tp"] == 0]
        named = [f"{shorten(terminal(name), NAME)} ({number(row['f1'], 3)})" for name, row in table.head(3).iterrows()]
        text = f"The labels with the lowest F1 are {', '.join(named)}"
        if len(never):
            text += f"; {count(len(never), 'label')} of {len(table):,} that occur {'are' if len(never) > 1 else 'is'} never found"
        return [text + "."]

    def _profile(self) -> list[str]:
        if not self.profiles:
            return []
        kind, profile = next(iter(self.profiles.items()))
        text = (
            f"The loss of the {KINDS[kind]} rises from {number(profile.hamming)} (Hamming) to {number(profile.subset)} "
            "(subset 0/1) as more labels have to be right together"
        )
        gain = profile.relative_gain
        if gain == gain:
            text += (
                f". On a scale from errors that are spread evenly over the instances (0%) to errors that all fall on the same "
                f"ones (100%) it stands at {_percent(gain)}"
            )
        return [text + "."]

    def _folds(self) -> list[str]:
        lead = next((m for m in _LEADS if m in self.means), None)
        if self.statistics is None or lead is None:
            return []
        column = self.ev.folds[lead]
        low, high = aligned([column.min(), column.max()])
        best, worst = column.idxmax(), column.idxmin()
        if MEASURES[lead].direction == "min":
            best, worst = worst, best
        return [f"Over {len(column)} folds {lead} lies between {low} and {high}: best in fold {best}, worst in fold {worst}."]

    def doubts(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        found = [*self.remarks, *(text[0].upper() + text[1:] + "." for text in self.ev.warnings)]
        if self.statistics is not None:
            found += [text[0].upper() + text[1:] + "." for text in self.statistics.warnings]
            if left := self.statistics.left_out:
                found.append(f"Some fold does not give {listed(left)}: no mean over folds is told.")
        if len(self.ev.folds) and self.flat and (empty := self._empty_in_folds()):
            found.append(empty)
        for reason, names in self._absent().items():
            found.append(f"Not computed, for {reason}: {listed(names, 8)}.")
        return found

    @property
    def normality(self) -> str:
        """Mardia's test of the folds in a sentence."""
        test = self.statistics.mardia
        if test is None:
            return f"Mardia's test of multivariate normality was not made: {self.statistics.no_mardia}"
        verdict = "do not look" if test.pvalue < 0.05 else "may well be"
        text = f"By Mardia's test the folds' {listed(test.measures)} {verdict} multivariate normal ({pvalue(test.pvalue)})"
        return ". ".join([text, *(w[0].upper() + w[1:].rstrip(".") for w in test.warnings)]) + "."

    def _empty_in_folds(self) -> str:
        """Labels that some fold tests without a single instance, though they occur."""
        total = self.ev.total.by_label[2]
        without = sum((sums.by_label[2] == 0) & (total > 0) for sums in self.ev.sums.values())
        if not without.any():
            return ""
        return (
            f"Of the labels that occur in the data, {int((without > 0).sum()):,} lack any instance in at least one fold; what "
            "they count in that fold's macro averages is convention."
        )

    def _absent(self) -> dict[str, list[str]]:
        """Measures that are missing against expectation, by reason; nobody expects hierarchical ones without a hierarchy."""
        reasons: dict[str, list[str]] = {}
        for m, reason in self.ev.absent.items():
            family = MEASURES[m].family
            expected = family in ("ranking", "dependence") if self.flat else False
            if expected or (self.ev.hierarchy is not None and family.startswith("hierarchical") and "asked" not in reason):
                reasons.setdefault(reason, []).append(m)
        return reasons

    def place(self, label: Hashable) -> list[Hashable]:
        """Where a label stands in the hierarchy: a path from a root down to it."""
        path = [label]
        while parents := self.hierarchy.parents(path[-1]):
            path.append(min(parents, key=str))
        return path[::-1]


def _percent(share: float) -> str:
    """A share to read.

    >>> _percent(0.1234), _percent(0.00012), _percent(1.0)
    ('12.3%', '0.012%', '100%')
    """
    return f"{number(100 * share, 3 if share >= 0.001 else 2)}%"
