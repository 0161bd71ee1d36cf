"""The tests by themselves: tables in, results out, as in scipy.stats."""

from mlflow_mleval.package import lazily

#: Name -> its module.
WHERE = {
    "bayesian_t": "analysis.beyond_pvalues",
    "bonferroni_dunn": "analysis.posthoc.rank_tests",
    "equivalence": "analysis.beyond_pvalues",
    "five_by_two": "analysis.multivariate",
    "friedman": "analysis.posthoc.rank_tests",
    "hierarchical_t": "analysis.hierarchical_t",
    "hotelling": "analysis.multivariate",
    "hotelling_pairs": "analysis.multivariate",
    "instance_tests": "analysis.pairs_by_unit",
    "manova": "analysis.multivariate",
    "mardia": "analysis.multivariate",
    "max_t": "analysis.posthoc.max_t",
    "measure_intervals": "analysis.measure_intervals",
    "nemenyi": "analysis.posthoc.rank_tests",
    "power_curve": "analysis.beyond_pvalues",
    "repeat_tests": "analysis.pairs_by_unit",
    "sign_test": "analysis.pairs_by_unit",
    "skillings_mack": "analysis.posthoc.rank_tests",
    "wilcoxon_pairs": "analysis.posthoc.rank_tests",
}
__all__ = list(WHERE)
__getattr__, __dir__ = lazily(__name__, WHERE)
