# Written by tests/typed/make_stubs.py: what a type checker sees of names that load lazily.
from mlflow_mleval import callbacks as callbacks
from mlflow_mleval import genai as genai
from mlflow_mleval import losses as losses
from mlflow_mleval import stats as stats
from mlflow_mleval.analysis.beyond_pvalues import bayesian_t as bayesian_t
from mlflow_mleval.analysis.beyond_pvalues import equivalence as equivalence
from mlflow_mleval.analysis.beyond_pvalues import power_curve as power_curve
from mlflow_mleval.analysis.comparison import compare as compare
from mlflow_mleval.analysis.fold_comparison import compare_folds as compare_folds
from mlflow_mleval.analysis.fusion import fuse as fuse
from mlflow_mleval.analysis.fusion import redundancy as redundancy
from mlflow_mleval.analysis.hierarchical_t import hierarchical_t as hierarchical_t
from mlflow_mleval.analysis.loss_profiles import Profiles as Profiles
from mlflow_mleval.analysis.loss_profiles import compare_profiles as compare_profiles
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
from mlflow_mleval.analysis.promethee import promethee as promethee
from mlflow_mleval.errors import MlevalError as MlevalError
from mlflow_mleval.evaluation import Evaluation as Evaluation
from mlflow_mleval.evaluation import evaluate as evaluate
from mlflow_mleval.evaluation import evaluate_batches as evaluate_batches
from mlflow_mleval.evaluation import evaluate_hierarchical as evaluate_hierarchical
from mlflow_mleval.evaluation import merge as merge
from mlflow_mleval.files.evaluate_spark import evaluate_spark as evaluate_spark
from mlflow_mleval.files.evaluate_spark import spark_instances as spark_instances
from mlflow_mleval.gates import gate as gate
from mlflow_mleval.measures.capacities import Capacity as Capacity
from mlflow_mleval.measures.capacities import NearestNeighbourMinimiser as NearestNeighbourMinimiser
from mlflow_mleval.measures.capacities import bayes_optimal as bayes_optimal
from mlflow_mleval.measures.capacities import choquet_loss as choquet_loss
from mlflow_mleval.measures.hierarchy import Hierarchy as Hierarchy
from mlflow_mleval.measures.inputs import calibrate_threshold as calibrate_threshold
from mlflow_mleval.measures.owa import Profile as Profile
from mlflow_mleval.measures.owa import binomial_loss as binomial_loss
from mlflow_mleval.measures.owa import loss_profile as loss_profile
from mlflow_mleval.measures.owa import owa_loss as owa_loss
from mlflow_mleval.measures.owa import polynomial_loss as polynomial_loss
from mlflow_mleval.store.importing import import_results as import_results
from mlflow_mleval.store.query import load_study as load_study
from mlflow_mleval.store.study_artifacts import load_folds as load_folds
from mlflow_mleval.store.study_artifacts import load_profiles as load_profiles
from mlflow_mleval.store.study_artifacts import profiles_of as profiles_of
from mlflow_mleval.store.study_artifacts import with_counts as with_counts
from mlflow_mleval.study import Study as Study
from mlflow_mleval.training.autolog import autolog as autolog
from mlflow_mleval.training.cross_validation import cross_validate as cross_validate
from mlflow_mleval.training.cross_validation import log_search as log_search
from mlflow_mleval.training.cross_validation import scoring as scoring
from mlflow_mleval.training.log_evaluation import log_evaluation as log_evaluation
from mlflow_mleval.training.log_evaluation import log_profile as log_profile

__version__: str
__all__ = [
    "Evaluation",
    "Hierarchy",
    "MlevalError",
    "Study",
    "__version__",
    "autolog",
    "calibrate_threshold",
    "callbacks",
    "compare",
    "compare_folds",
    "compare_profiles",
    "cross_validate",
    "evaluate",
    "evaluate_batches",
    "evaluate_hierarchical",
    "evaluate_spark",
    "fuse",
    "gate",
    "genai",
    "hierarchical_t",
    "import_results",
    "instance_tests",
    "load_folds",
    "load_profiles",
    "load_study",
    "log_evaluation",
    "log_profile",
    "log_search",
    "losses",
    "merge",
    "promethee",
    "redundancy",
    "scoring",
    "stats",
]
