"""A Comparison: all that a Study says about which method is better, on what, and how sure that is.

One function, `compare`, joins fusion, tests over datasets, redundancy and stability, decides which test may speak, and
collects the doubts. It computes nothing that the modules below do not compute; reports only read it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from mlflow_mleval.analysis import stability as st
from mlflow_mleval.analysis.beyond_pvalues import Certainty, certainty
from mlflow_mleval.analysis.cliques import cliques, letters
from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison, compare_folds
from mlflow_mleval.analysis.fusion import Fusion, fuse
from mlflow_mleval.analysis.loss_profiles import Profiles
from mlflow_mleval.analysis.paired import Feasibility, PairwiseResult, feasibility, wilcoxon_pairs
from mlflow_mleval.analysis.profile_comparison import ProfileComparison, compare_profiles
from mlflow_mleval.analysis.ranks import (
    FriedmanResult,
    NemenyiResult,
    SkillingsMackResult,
    bonferroni_dunn,
    friedman,
    kendall,
    nemenyi,
    skillings_mack,
)
from mlflow_mleval.analysis.redundancy import Redundancy, redundancy
from mlflow_mleval.errors import IncomparableRunsError, MlevalError
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.validation import one_of, probability

FUSED = "fused"
TESTS = ("auto", "wilcoxon", "nemenyi")
#: Fewer datasets than this, and a rank test says nothing worth printing.
MIN_DATASETS = 2


@dataclass(frozen=True)
class Stability:
    """How sure the fused ranking is: results of the functions of `mlflow_mleval.analysis.stability`."""

    intervals: Any
    dethrone: Any
    acceptability: Any
    leave_one_out: Any
    sensitivity: Any


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    study : Study
        The completed study: no empty cell, the policy's work listed.
    fusion : Fusion
        Fused ranking: `ranking`, `ranks`, `phi`, `weights`, and per dataset the PROMETHEE results.
    on : str
        What the tests over datasets compare: "fused" (net flows and their ranks) or the name of one measure.
    table : pandas.DataFrame
        Datasets x methods: the values that are tested, larger is better.
    ranks : pandas.DataFrame
        Datasets x methods: their ranks, 1 is best.
    order : list of str
        Methods by mean rank, best first.
    friedman, nemenyi, pairwise, feasibility, skillings_mack : result objects or None
        The tests; None where `absent` says why. With a control `nemenyi` is the Bonferroni-Dunn test against it.
        skillings_mack only for a measure whose table has empty cells.
    decides : {"wilcoxon", "nemenyi", "none"}
        Which test gives the verdict about pairs.
    decision : str
        Why that one, in a sentence.
    separated : list of (better, worse)
        The pairs which that test separates at `alpha`, before any other doubt.
    cliques : list of list of str
        Maximal groups of methods that it does not separate.
    letters : mapping of str to str
        The same as letters per method: methods that share one are not separated.
    measure_tests : pandas.DataFrame
        By measure: leader, its mean rank, Friedman and Iman-Davenport p.
    concordance : pandas.DataFrame
        Kendall's tau-b between the rankings by the single measures and the fused one.
    redundancy : Redundancy or None
        Correlated measures, the filter, the groups, and the ranking without the redundant ones.
    stability : Stability or None
        Only where asked for.
    folds : mapping of str to FoldComparison
        By dataset: what its folds say. Datasets whose folds could not be tested are in `absent`, as "folds.DATASET".
    profiles : ProfileComparison or None
        Who is better where along loss profiles; only where these were given.
    beyond : Certainty or None
        Only where a rope was given: what lies beyond p-values.
    doubts : tuple of str
        What a reader must know before believing the verdict.
    absent : mapping of str to str
        Parts that could not be computed, with the reason.
    options : mapping
        Every choice that was made.
    """

    study: Study
    fusion: Fusion
    on: str
    table: pd.DataFrame
    ranks: pd.DataFrame
    order: list[str]
    friedman: FriedmanResult | None
    nemenyi: NemenyiResult | None
    pairwise: PairwiseResult | None
    feasibility: Feasibility | None
    skillings_mack: SkillingsMackResult | None
    decides: str
    decision: str
    separated: list[tuple[str, str]]
    cliques: list[list[str]]
    letters: Mapping[str, str]
    measure_tests: pd.DataFrame
    concordance: pd.DataFrame
    redundancy: Redundancy | None
    stability: Stability | None
    folds: Mapping[str, FoldComparison]
    profiles: ProfileComparison | None
    beyond: Certainty | None
    doubts: tuple[str, ...]
    absent: Mapping[str, str]
    options: Mapping[str, Any]

    @property
    def leader(self) -> str:
        """The method with the best mean rank."""
        return self.order[0]

    def is_separated(self, a: str, b: str) -> bool:
        """Whether the deciding test separates the two methods, in either direction."""
        return (a, b) in self.separated or (b, a) in self.separated


def compare(
    study: Study,
    *,
    on: str = FUSED,
    preference: Any = "v_shape",
    weights: Any = "entropy",
    p: Any = None,
    q: Any = None,
    s: Any = None,
    drop_constant: bool = False,
    alpha: float = 0.05,
    ties: str = "correct",
    test: str = "auto",
    correction: str = "holm",
    control: str | None = None,
    threshold: float = 0.9,
    stability: bool = False,
    n_draws: int = 10_000,
    seed: int = 0,
    over_folds: Mapping[str, Any] | None = None,
    profiles: Profiles | None = None,
    rope: float | None = None,
) -> Comparison:
    """Fuse the measures of a study, test the differences over datasets, and say how far to trust it.

    Parameters
    ----------
    study : Study
        At least two methods; its policy for missing values is applied.
    on : str
        "fused" or a measure: what the tests over datasets compare.
    preference, weights, p, q, s, drop_constant
        As in `fuse`.
    alpha : float
        Significance level of every test.
    ties : {"correct", "ignore"}
        Tie correction of the Friedman statistic; "ignore" reproduces the papers.
    test : {"auto", "wilcoxon", "nemenyi"}
        Which test decides about pairs. "auto": Wilcoxon's signed ranks where they can reject at all, else Nemenyi.
    correction : str
        Correction of the pairwise p-values for their number.
    control : str, optional
        Compare every method with this one only.
    threshold : float
        Absolute correlation above which a measure is redundant.
    stability : bool
        Whether to examine how sure the ranking is (weights, draws, left-out methods, other functions and policies).
    n_draws, seed : int
        Random weight vectors for the rank acceptability.
    over_folds : mapping, optional
        Options of `compare_folds`: measures, protocol, ratio, paired.
    profiles : Profiles, optional
        Loss profiles of the same runs, to be compared too; see `compare_profiles`.
    rope : float, optional
        Largest difference that does not matter, in units of what is compared. Given, `beyond` says how probable larger ones are,
        which ranks are possible, and how many datasets or folds it would take.

    Returns
    -------
    Comparison

    Raises
    ------
    IncomparableRunsError
        Fewer than two methods, or an unknown control.

    Examples
    --------
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> compare(Study.from_frame(frame)).leader
    'b'
    """
    one_of(test, "test", TESTS)
    probability(alpha, "alpha")
    if len(study.methods) < 2:
        found = f"the study holds one method only ({', '.join(study.methods)}); a comparison needs two."
        raise IncomparableRunsError(" ".join([found, *left_out(study.excluded)]))
    if control is not None and control not in study.methods:
        raise IncomparableRunsError(f"the control {control!r} is not among the methods {', '.join(study.methods)}.")
    if on != FUSED:
        study.cells(on)
    choices = {"preference": preference, "weights": weights, "p": p, "q": q, "s": s, "drop_constant": drop_constant}
    fusion = fuse(study, **choices)
    full = fusion.study
    table, ranks = _tested(fusion, on)
    order = list(ranks.mean().sort_values(kind="stable").index)
    absent: dict[str, str] = {}

    tests = _tests_over_datasets(table, ranks, order, alpha, ties, test, correction, control, absent)
    said = tests.pop("said")
    skillings = None
    if on != FUSED and study.cells(on).isna().any(axis=None):
        skillings = skillings_mack(study.ranks(on))
    redundant = None
    if len(full.measures) > 1 and len(full.methods) > 2:
        redundant = redundancy(fusion, threshold=threshold)
    else:
        absent["redundancy"] = "needs at least two measures and three methods"
    sure = None
    if stability:
        if len(full.methods) == 2:
            absent["stability.leave_one_out"] = "needs three methods"
        sure = Stability(
            st.weight_intervals(fusion),
            st.dethrone(fusion),
            st.rank_acceptability(fusion, n_draws=n_draws, seed=seed),
            st.leave_one_out(fusion) if len(full.methods) > 2 else None,
            st.sensitivity(study, **choices),
        )
    by_measure, tau = _by_measure(full, fusion, ties)
    by_fold = compare_all_folds(full, absent, alpha=alpha, **(over_folds or {}))
    along = None if profiles is None else _along_profiles(full, profiles, alpha, seed, over_folds or {}, absent)
    beyond = None
    if rope is not None:
        beyond = certainty(fusion, table, ranks, by_fold, rope=rope, alpha=alpha, correction=correction, seed=seed)
    options = {
        "on": on, **choices, "missing": full.missing, "alpha": alpha, "ties": ties, "test": test, "correction": correction,
        "control": control, "threshold": threshold, "n_draws": n_draws, "seed": seed,
        "rope": rope, "over_folds": dict(over_folds or {}),
    }
    return Comparison(
        study=full, fusion=fusion, on=on, table=table, ranks=ranks, order=order, skillings_mack=skillings,
        measure_tests=by_measure, concordance=tau, redundancy=redundant, stability=sure, folds=by_fold,
        profiles=along, beyond=beyond,
        doubts=_doubts(full, fusion, redundant, sure, tests, said), absent=absent, options=options, **tests,
    )


def compare_all_folds(study: Study, absent: dict[str, str], **options: Any) -> dict[str, FoldComparison]:
    """What the folds of every dataset say; why those of others could not be tested goes to `absent`, as "folds.DATASET".

    Where no measures are named, those that follow from others are left out.
    """
    if study.folds is None:
        return {}
    if options.get("measures") is None:
        options["dependent"] = "drop"
    kept = study.folds.index.droplevel("fold").isin(study.values.index)
    study, found = replace(study, folds=study.folds[kept]), {}
    for dataset in study.datasets:
        try:
            found[dataset] = compare_folds(study, dataset, **options)
        except (MlevalError, ValueError) as error:
            absent[f"folds.{dataset}"] = str(error)
    return found


def _along_profiles(
    study: Study, profiles: Profiles, alpha: float, seed: int, over_folds: Mapping[str, Any], absent: dict[str, str]
) -> ProfileComparison | None:
    """The comparison of the loss profiles of what the study holds."""
    kept = profiles.select(study.values.index)
    if not any(len(kept.on(dataset)) > 1 for dataset in kept.datasets):
        absent["profiles"] = "no two methods carry a loss profile on the same dataset"
        return None
    options = {key: over_folds.get(key) for key in ("protocol", "ratio")}
    kept = replace(kept, notes=tuple(note for note in kept.notes if note not in study.notes))  # told with the study
    return compare_profiles(kept, alpha=alpha, seed=seed, **options)


def _tested(fusion: Fusion, on: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Values (larger is better) and ranks (1 is best) that the tests compare: datasets x methods."""
    if on == FUSED:
        return fusion.phi, fusion.ranks
    study = fusion.study
    return study.cells(on) * (-1 if study.directions[on] == "min" else 1), study.ranks(on)


def _tests_over_datasets(
    table: pd.DataFrame, ranks: pd.DataFrame, order: list[str], alpha: float, ties: str, test: str, correction: str,
    control: str | None, absent: dict[str, str],
) -> dict[str, Any]:
    n_datasets, n_methods = ranks.shape
    out: dict[str, Any] = {
        "friedman": None, "nemenyi": None, "pairwise": None, "feasibility": None, "decides": "none", "separated": [],
    }
    if n_datasets < MIN_DATASETS:
        reason = f"{n_datasets} dataset: tests over datasets need at least {MIN_DATASETS}"
        absent |= dict.fromkeys(("friedman", "nemenyi", "pairwise"), reason)
        out["decision"] = f"No test over datasets is possible with {n_datasets} dataset."
    else:
        possible = feasibility(n_datasets, n_methods, alpha=alpha, correction=correction, control=control is not None)
        pairwise = wilcoxon_pairs(table, correction=correction, control=control, alpha=alpha)
        posthoc = nemenyi(ranks, alpha) if control is None else bonferroni_dunn(ranks, control, alpha)
        omnibus = friedman(ranks, ties=ties)
        out |= {"friedman": omnibus, "nemenyi": posthoc, "pairwise": pairwise, "feasibility": possible}
        if test == "wilcoxon" or (test == "auto" and possible.can_reject):
            out["decides"], out["separated"] = "wilcoxon", list(pairwise.significant_pairs)
            pairs = "every pair" if control is None else f"every pair with {control}"
            out["decision"] = f"Wilcoxon's signed-rank test on {pairs}, p-values corrected ({correction})."
        else:
            out["decides"], out["separated"] = "nemenyi", list(posthoc.significant_pairs)
            name = "Nemenyi's test" if control is None else "The Bonferroni-Dunn test"
            why = "as asked" if test == "nemenyi" else "because pairwise signed-rank tests could not reject anything here"
            out["decision"] = f"{name} on mean ranks, {why}."
    apart = pd.DataFrame(False, index=order, columns=order)
    for better, worse in out["separated"]:
        apart.loc[better, worse] = apart.loc[worse, better] = True
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out["cliques"] = cliques(apart)
    out["said"] = [str(w.message) for w in said]
    out["letters"] = letters(out["cliques"], order)
    return out


def _by_measure(study: Study, fusion: Fusion, ties: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Who leads by each single measure, its Friedman test, and Kendall's tau between all the rankings."""
    rows, rankings = {}, {FUSED: fusion.ranks.mean()}
    for measure in study.measures:
        ranks = study.ranks(measure)
        mean = rankings[measure] = ranks.mean()
        found = friedman(ranks, ties=ties) if len(ranks) >= MIN_DATASETS else None
        rows[measure] = {
            "direction": study.directions[measure],
            "leader": mean.idxmin(),
            "mean_rank": mean.min(),
            "friedman_pvalue": found.pvalue if found else float("nan"),
            "iman_davenport_pvalue": found.iman_davenport_pvalue if found else float("nan"),
        }
    return pd.DataFrame.from_dict(rows, orient="index"), kendall(pd.DataFrame(rankings).T)


def _doubts(
    study: Study, fusion: Fusion, redundant: Redundancy | None, sure: Stability | None, tests: Mapping[str, Any], said: list[str]
) -> tuple[str, ...]:
    doubts = []
    if study.filled:
        per = pd.Series([d for d, _ in study.filled]).value_counts()
        where = ", ".join(f"{d} ({n})" for d, n in per.items())
        total = len(study.datasets) * len(study.methods)
        are, were = ("is", "was") if len(study.filled) == 1 else ("are", "were")
        why = f" ({why})" if (why := study.why_empty(study.filled)) else ""
        doubts.append(
            f"{len(study.filled)} of {total} results {are} missing{why} and {were} given that dataset's worst value "
            f"(policy worst): {where}."
        )
    parts = (fusion, redundant, sure and sure.dethrone)
    doubts += [*study.notes, *left_out(study.excluded), *(w for part in parts if part is not None for w in part.warnings), *said]
    for key in ("friedman", "nemenyi", "pairwise"):
        doubts += getattr(tests[key], "warnings", ())
    if tests["feasibility"] is not None:  # the verdict says this already
        doubts = [d for d in doubts if d != tests["feasibility"].message]
    omnibus = tests["friedman"]
    if omnibus is not None and tests["separated"] and omnibus.best_pvalue > tests["nemenyi"].alpha:
        doubts.append("Pairs are separated although the Friedman test over all methods finds no difference.")
    return tuple(dict.fromkeys(doubts))
