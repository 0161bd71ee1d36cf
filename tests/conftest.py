"""What several areas share: processes, a fresh store for each test, a server, a browser."""

import itertools
import os
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings
from waiting import MLFLOW_SETTINGS, PATIENCE, do_not_wait_for_the_disk, free_port, running

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# MLflow has one where tqdm is installed, and not elsewhere.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# Locks go there, and not home; it stays, for others keep there what takes long to make.
os.environ["XDG_CACHE_HOME"] = str(Path(tempfile.gettempdir(), f"mleval-tests-{os.getuid()}"))
CHROME = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

# The same examples every time, so that no test fails by chance, and no minutes to make them small.
# To search for new ones, and make them small: --hypothesis-profile=explore
AS_IT_IS = [phase for phase in Phase if phase is not Phase.shrink]
ALWAYS = {"deadline": None, "print_blob": True}
settings.register_profile("ci", derandomize=True, max_examples=60, phases=AS_IT_IS, **ALWAYS)
settings.register_profile("explore", max_examples=1000, **ALWAYS)
settings.register_profile("each-change", settings.get_profile("ci"), max_examples=20)
settings.load_profile("each-change")


do_not_wait_for_the_disk()
#: When runs of `log` begin.
START = itertools.count(1_700_000_000_000, 1000)


def pytest_xdist_auto_num_workers(config) -> int:
    """A process a core for the whole suite; named files run at once, in one process."""
    named = any(Path(arg.partition("::")[0]).is_file() for arg in config.args)
    return 0 if named else min(os.cpu_count() or 1, 8)


#: Quick files that touch every room: most mistakes fail here first.
SMOKE = {
    *("test_evaluation", "test_layers", "test_public_names", "test_selection"),
    *("test_flat", "test_one_label", "test_registry", "test_pair_tests", "test_ranks"),
    *("test_promethee", "test_fold_sources", "test_filters", "test_scores"),
    *("test_brief", "test_displays", "test_escape", "test_decision"),
}
#: Dear tests, and dear cases of tests, whose fact another one tells after each change: thorough.
DEAR = set(
    """
test_a_file_gives_the_ranking_that_importing_it_gives
test_a_file_that_declares_hundreds_of_times_its_size_is_not_unpacked
test_a_call_without_directions_proposes_the_same_with_them[val.zork-ways0-rank-asked0]
test_a_gate_without_a_margin_proposes_one_and_names_the_measures
test_a_name_or_param_that_tells_of_more_datasets_stops_tests_over_repeats[{m}-params2-`dataset_by='param:data'`]
test_a_report_into_a_device_leaves_no_data_beside_it
test_a_scorer_made_of_a_wrapped_metric_reaches_other_processes_beside_mlflow
test_an_answer_over_gaps_counts_the_data_sets_that_it_is_over[results_with_gaps-drop-datasets]
test_an_answer_over_gaps_counts_the_data_sets_that_it_is_over[results_with_gaps-drop-methods]
test_any_names_and_numbers_come_back_unharmed
test_autologging_imports_no_database_and_no_report_and_logging_no_comparison
test_data_is_never_redacted
test_each_of_many_rows_can_be_told
test_every_next_is_a_call_that_works[asked1]
test_every_next_is_a_call_that_works[asked2]
test_explain_knows_keys_words_arguments_and_the_metrics_of_an_experiment
test_folds_that_are_too_many_for_a_tag_are_read_where_it_points_to
test_four_hundred_methods_are_summarised
test_hostile_names_stay_text
test_hyperparameters_are_not_logged_twice_beside_mlflow
test_importing_changes_nothing_of_other_libraries
test_known_data_held_out_and_cross_validated[cancer]
test_known_data_held_out_and_cross_validated[text]
test_mlflow_finds_the_evaluator_at_no_cost
test_no_password_is_in_a_warning[False-postgresql://me:{}@127.0.0.1:9/db]
test_no_password_is_in_a_warning[True-postgresql://me:{}@127.0.0.1:9/db]
test_nothing_is_kept_alive
test_options_change_beside_mlflow_too[mlflow ours mlflow ours off]
test_options_change_beside_mlflow_too[ours off mlflow ours]
test_prompts_are_gated_by_their_traces
test_rows_align_although_order_differs_and_previews_are_cut
test_runs_of_earlier_versions_read_and_write_the_same
test_spread_and_number_of_repeats_stand_in_every_format
test_tables_of_predictions_on_the_same_truth_are_not_said_to_be_other_data
test_the_command_writes_the_id_and_keeps_one_run_a_report
test_the_tag_of_folds_is_exact_or_says_so
test_what_mleval_logged_ends_with_the_command_that_was_selected
test_without_the_library_it_says_what_to_install
""".splitlines()
)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is thorough
def pytest_collection_modifyitems(items) -> None:
    """Mark what is thorough and what is quick; what needs the server or the browser comes first."""
    for item in items:
        dear = {item.name, getattr(item, "originalname", None)} & DEAR
        if dear or item.get_closest_marker("browser"):
            item.add_marker("thorough")
        marks = {mark.name for mark in item.iter_markers()}
        if item.path.stem in SMOKE and not marks & {"thorough", "slow"}:
            item.add_marker("smoke")
    dear = {"server_url", "chrome", "team"}
    items.sort(key=lambda item: dear.isdisjoint(getattr(item, "fixturenames", ())))


def pytest_collection_finish(session) -> None:
    """Tests run in a folder of this process, and leave nothing in the checkout."""
    folder = tempfile.mkdtemp(prefix="mleval-tests-")
    session.config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    session.config.add_cleanup(lambda: os.chdir(session.config.invocation_params.dir))
    os.chdir(folder)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """What draws from the global generators draws the same in any order of the tests."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A database file with MLflow's tables; made once, because that takes seconds."""
    from mlflow import MlflowClient
    from mlflow.store.db import utils

    # MLflow loads all its migrations, to know the newest, for each store: it is the same for all
    if hasattr(utils, "_get_latest_schema_revision"):
        utils._get_latest_schema_revision = cache(utils._get_latest_schema_revision)
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def unset(monkeypatch) -> None:
    """No setting of MLflow is left from the environment or from an earlier test, and no trouble."""
    from mlflow.tracking import fluent

    from mlflow_mleval.training import delivery

    for name in ("_homes", "_troubles"):
        monkeypatch.setattr(delivery, name, {})
    for name in MLFLOW_SETTINGS:
        monkeypatch.setenv(name, "")  # so that the absence is restored, too
        monkeypatch.delenv(name)
    monkeypatch.setattr(fluent, "_active_experiment_id", None)


@pytest.fixture
def db(empty_store, tmp_path, monkeypatch, unset) -> Path:
    """A store of its own for the test, and a working folder; MLflow is set to it."""
    path = tmp_path / "mlflow.db"
    shutil.copy(empty_store, path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture(scope="module")
def own_store(empty_store, tmp_path_factory):
    """A folder with a store for all tests of a file; MLflow is set to it."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(empty_store, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="session")
def plain_store(empty_store, tmp_path_factory) -> Path:
    """A file with the 300 runs that helpers/plain_store.py describes; for reading only."""
    from plain_store import write

    path = tmp_path_factory.mktemp("plain") / "mlflow.db"
    shutil.copy(empty_store, path)
    write(path)
    return path


@pytest.fixture
def plain(plain_store, tmp_path, monkeypatch, unset) -> Path:
    """The store of `plain_store`, and a working folder; MLflow is set to it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{plain_store}")
    monkeypatch.chdir(tmp_path)
    return plain_store


@pytest.fixture
def client(db, monkeypatch):
    """A client of the test's own store, which has time, and tells tags of runs by their names."""
    from mlflow import MlflowClient

    from mlflow_mleval.store import store

    monkeypatch.setenv("MLEVAL_TIMEOUT", str(PATIENCE))

    class Opening(MlflowClient):
        def get_run(self, run_id):
            return store.opened(super().get_run(run_id))

        def search_runs(self, *args, **kwargs):
            found = super().search_runs(*args, **kwargs)
            for run in found:
                store.opened(run)
            return found

    return Opening()


@pytest.fixture
def log(client):
    """Logs a run of plain MLflow as anybody might; runs begin a second apart."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

    def log(name, metrics=(), *, experiment="x", tags=(), params=(), status="FINISHED", **more):
        data = {"dataset": "", "digest": "0", "context": "", "profile": None, "start": 0}
        assert more.keys() <= data.keys()
        data |= more
        found = client.get_experiment_by_name(experiment)
        experiment_id = found.experiment_id if found else client.create_experiment(experiment)
        begun = data["start"] or next(START)
        run_id = client.create_run(experiment_id, begun, dict(tags), name).info.run_id
        values = [Metric(key, value, 1, 0) for key, value in dict(metrics).items()]
        texts = [Param(key, str(value)) for key, value in dict(params).items()]
        client.log_batch(run_id, values, texts)
        if name := data["dataset"]:
            held = Dataset(name, data["digest"], "local", "{}", profile=data["profile"])
            label = InputTag("mlflow.data.context", data["context"])
            client.log_inputs(run_id, [DatasetInput(held, [label] if data["context"] else [])])
        if status != "RUNNING":
            client.set_terminated(run_id, status)
        return run_id

    return log


@pytest.fixture(scope="session")
def server_url(empty_store, tmp_path_factory):
    """A real MLflow server on localhost, one for all tests that ask for it."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, folder / "mlflow.db")
    port = free_port()
    command = [
        *("mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    url = f"http://127.0.0.1:{port}"
    with running(command, folder, url):
        yield url


@pytest.fixture
def server(server_url, tmp_path, monkeypatch, unset) -> str:
    """The server's URL; MLflow is set to it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server_url)
    monkeypatch.chdir(tmp_path)
    return server_url


@pytest.fixture(scope="session")
def chrome(tmp_path_factory):
    """A headless browser, one for all tests that ask for it."""
    if not (CHROME and DRIVER):
        pytest.skip("no Chromium and chromedriver on this machine")
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROME
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chrome')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    from selenium.common.exceptions import WebDriverException

    for left in (3, 2, 1, 0):  # selenium gives chromedriver half a minute to start
        try:
            driver = webdriver.Chrome(options=options, service=Service(DRIVER))
            break
        except WebDriverException:
            if not left:
                raise
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    yield driver
    driver.quit()
