# Written by tests/typed/make_stubs.py: what a type checker sees of names that load lazily.
from mlflow_mleval.analysis.beyond_pvalues import bayesian_t as bayesian_t
from mlflow_mleval.analysis.beyond_pvalues import equivalence as equivalence
from mlflow_mleval.analysis.beyond_pvalues import power_curve as power_curve
from mlflow_mleval.analysis.hierarchical_t import hierarchical_t as hierarchical_t
from mlflow_mleval.analysis.measure_intervals import measure_intervals as measure_intervals
from mlflow_mleval.analysis.multivariate import five_by_two as five_by_two
from mlflow_mleval.analysis.multivariate import hotelling as hotelling
from mlflow_mleval.analysis.multivariate import hotelling_pairs as hotelling_pairs
from mlflow_mleval.analysis.multivariate import manova as manova
from mlflow_mleval.analysis.multivariate import mardia as mardia
from mlflow_mleval.analysis.pairs_by_unit import instance_tests as instance_tests
from mlflow_mleval.analysis.pairs_by_unit import repeat_tests as repeat_tests
from mlflow_mleval.analysis.pairs_by_unit import sign_test as sign_test
from mlflow_mleval.analysis.posthoc.max_t import max_t as max_t
from mlflow_mleval.analysis.posthoc.rank_tests import bonferroni_dunn as bonferroni_dunn
from mlflow_mleval.analysis.posthoc.rank_tests import friedman as friedman
from mlflow_mleval.analysis.posthoc.rank_tests import nemenyi as nemenyi
from mlflow_mleval.analysis.posthoc.rank_tests import skillings_mack as skillings_mack
from mlflow_mleval.analysis.posthoc.rank_tests import wilcoxon_pairs as wilcoxon_pairs

__all__ = [
    "bayesian_t",
    "bonferroni_dunn",
    "equivalence",
    "five_by_two",
    "friedman",
    "hierarchical_t",
    "hotelling",
    "hotelling_pairs",
    "instance_tests",
    "manova",
    "mardia",
    "max_t",
    "measure_intervals",
    "nemenyi",
    "power_curve",
    "repeat_tests",
    "sign_test",
    "skillings_mack",
    "wilcoxon_pairs",
]
