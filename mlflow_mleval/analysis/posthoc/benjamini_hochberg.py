"""Wilcoxon's signed ranks with the false discovery rate of Benjamini and Hochberg (1995)."""

from __future__ import annotations

from dataclasses import replace

from mlflow_mleval.analysis.posthoc.description import Tested
from mlflow_mleval.analysis.posthoc.wilcoxon import PairwiseResult, Wilcoxon


class BenjaminiHochberg(Wilcoxon):
    """Every pair by itself, by signed ranks; of the pairs that are separated, a share of α may be
    separated by chance.
    """

    name = asked = "benjamini-hochberg"
    title = "Benjamini–Hochberg"
    key = "benjamini_hochberg"
    always = False
    column = sort = "pvalue_benjamini_hochberg"
    head = "p (BH)"
    summary = (
        "tests pairs by signed ranks and bounds the share of false ones among those it "
        "separates, not the chance of any"
    )
    sources = ("Wilcoxon 1945", "Benjamini & Hochberg 1995")

    def run(self, tested: Tested) -> PairwiseResult:
        from scipy.stats import (
            false_discovery_control,
        )  # takes a third of a second, and is seldom asked for

        found = super().run(replace(tested, correction="none"))
        corrected = false_discovery_control(found.table["pvalue"])
        return replace(
            found,
            table=found.table.assign(
                pvalue_corrected=corrected, significant=corrected <= tested.alpha
            ),
        )

    def wording(self, result: PairwiseResult) -> str:
        return "Wilcoxon's signed ranks, Benjamini–Hochberg's false discovery rate"

    def sentence(self, result: PairwiseResult) -> str:
        return "Wilcoxon's signed ranks with the false discovery rate of Benjamini and Hochberg"

    def meaning(self, result: PairwiseResult) -> str:
        return (
            f"Of the pairs that are separated so, at most {100 * result.alpha:g}% are separated "
            "by chance, on average over such studies; the chance that some pair is wrong may be "
            "larger. Datasets count as independent, differences on them as comparable in size."
        )
