"""What names methods, datasets and repeats where nobody said it."""

import itertools

import pytest

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.errors import CandidatesError, NoRunsError
from mlflow_mleval.selection import Selection
from mlflow_mleval.store.query import load_study
from mlflow_mleval.store.survey import take_stock


def load(**options):
    return load_study(**({"experiment_names": ["x"]} | options))


def test_a_method_of_two_words_tells_of_no_dataset(log):
    """Parts of the runs' names that vary together are one name."""
    for (i, m), s in itertools.product(enumerate(("random forest", "big net")), range(8)):
        params = {"model": m, "seed": str(s)}
        log(f"{m} split {s}", {"f1": 0.5 + i / 9 + s % 3 / 99}, params=params)
    study = load(method_by="param:model")
    assert study.unsure("dataset") == "" and compare(study).separated


def test_experiments_whose_runs_are_numbered_are_studies_and_methods(log):
    for study, top in (("svm", 0.8), ("forest", 0.9)):
        for trial in range(4):
            log(str(trial), {"f1": top - trial / 9}, params={"x": str(trial)}, experiment=study)
    both = {"experiment_names": ["svm", "forest"]}
    study, held = take_stock(Selection(**both))
    (way,) = held.rankings
    assert (way.selection.method_by, way.selection.duplicates) == (("experiment",), "best:f1")
    assert way.study.datasets == ["all runs"] and {*way.study.methods} == {"svm", "forest"}
    assert any("are optimistic" in note for note in way.study.notes)


def test_the_columns_of_a_table_count_as_features_where_scikit_learn_was_fitted_on_it(log):
    """Those of an evaluation may hold its outputs."""
    for columns, model, name in itertools.product((2, 3), ("svc", "rf"), ("fitted", "evaluated")):
        profile = f'{{"num_rows": 10, "num_elements": {10 * columns}}}'
        of = {"dataset": "dataset", "digest": str(columns), "profile": profile}
        tags = {"estimator_name": model} if name == "fitted" else {}
        log(model, {"f1": columns / 10}, experiment=name, tags=tags, **of)
    fitted = load(experiment_names=["fitted"])
    assert fitted.datasets == ["fitted (2 features)", "fitted (3 features)"]
    assert load(experiment_names=["evaluated"], duplicates="mean").datasets == ["evaluated"]


@pytest.mark.filterwarnings("error::pandas.errors.PerformanceWarning")
def test_names_of_runs_are_read_by_a_pattern(log):
    many = {f"own_{i}": 1 for i in range(120)}
    for model, data, seed in itertools.product(("bert", "gpt"), ("imdb", "sst"), range(2)):
        log(f"{model}_{data}_s{seed}", {"f1": 0.5 + seed / 10, **many})
    log("scratch", {"f1": 0.1})
    study = load(name_as="{method}_{dataset}_s{seed}")
    assert (study.methods, study.datasets) == (["bert", "gpt"], ["imdb", "sst"])
    assert [e.name.split(" ")[0] for e in study.excluded if e.kind == "run"] == ["scratch"]
    assert study.repeats.index.tolist()[1] == ("imdb", "bert", "1")
    with pytest.raises(NoRunsError, match="no run has a name like '{method}-{seed}'; they have"):
        load(name_as="{method}-{seed}")
    for wrong in ("{dataset}", "{method}{method}", "{method}{fold}"):
        with pytest.raises(ValueError, match="`name_as` must hold {method}, and maybe {dataset}"):
            load(name_as=wrong)


def test_hold_out_and_cross_validation_are_no_repeats(log):
    log("a", {"f1": 0.5}, params={"seed": "1"})
    log("a", {"f1": 0.6, "f1_std": 0.1}, params={"seed": "2"})
    with pytest.raises(CandidatesError, match="2 runs that differ in number of folds"):
        load()


def test_pipelines_and_searches_are_named_by_what_they_hold(log):
    steps = "[('standardscaler', StandardScaler()), ('svc', SVC())]"
    log("x", {"f1": 0.5}, tags={"estimator_name": "Pipeline"}, params={"steps": steps})
    search = {"estimator": f"Pipeline(steps={steps})", "best_svc__C": "10", "random_state": "1"}
    searched = {"estimator_name": "GridSearchCV"}
    log("y", {"f1": 0.6, "best_cv_score": 0.5}, tags=searched, params=search)
    other = search | {"best_svc__C": "1", "random_state": "2"}
    log("z", {"f1": 0.7, "best_cv_score": 0.5}, tags=searched, params=other)
    study = load(measures=["f1"])
    assert study.methods == ["Pipeline(StandardScaler, SVC)", "GridSearchCV(StandardScaler, SVC)"]
    assert study.n_repeats["x", study.methods[1]] == 2
