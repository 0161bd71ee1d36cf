"""MLflow's own pages in a real browser: what a user sees of runs without a click of ours."""

from itertools import product
from types import SimpleNamespace

import pandas as pd
import pytest
from command_line import mleval
from example_runs import loaded
from places import EXAMPLES
from waiting import MLFLOW_SETTINGS

pytestmark = [pytest.mark.browser, pytest.mark.server]
pytest.importorskip("selenium")
ui = loaded(EXAMPLES / "pictures" / "make_pictures.py")
FOLDS = 4
# What each chart holds by name of the run, and how many lines it has drawn.
CHARTS = """
return [...document.querySelectorAll(".js-plotly-plot")].map(chart => ({
  title: chart.closest("[data-testid=experiment-view-compare-runs-card]").innerText.split("\\n")[0],
  lines: chart.data.map(line => ({name: line.name, x: [...line.x], y: [...line.y]})),
  drawn: new Set([...chart.querySelectorAll(".scatterlayer .js-line")].map(path => path.getAttribute("d"))).size,
}))"""  # noqa: E501


@pytest.fixture
def chrome(chrome, server_url):
    """The browser as if new, at the size of a desk, without MLflow's chat window over the page."""
    chrome.execute_cdp_cmd(
        "Storage.clearDataForOrigin", {"origin": server_url, "storageTypes": "all"}
    )
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    added = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ui.NO_CHAT})
    ui.size(chrome, 1400, 1000)
    yield chrome
    chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    chrome.get("about:blank")


@pytest.fixture(scope="module")
def runs(server_url):
    """Five methods, cross-validated on real data and logged to the server."""
    from mlflow import MlflowClient

    with pytest.MonkeyPatch.context() as patch:
        for name in MLFLOW_SETTINGS:
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_TRACKING_URI", server_url)
        evaluations = ui.cross_validate_digits("digits in the UI", folds=FOLDS, measures="micro_ap")
    client = MlflowClient(server_url)
    experiment_id = client.get_experiment_by_name("digits in the UI").experiment_id
    found = {run.data.tags["mleval.method"]: run for run in client.search_runs([experiment_id])}
    assert set(found) == set(evaluations)
    held = {"by_method": found, "evaluations": evaluations}
    return SimpleNamespace(url=server_url, client=client, experiment_id=experiment_id, **held)


def charts(chrome, runs, *titles: str) -> dict:
    """Search for the charts; each is a table: a column a run, a row a step."""
    ui.open_charts(chrome, runs.url, runs.experiment_id, "|".join(titles))
    names = {run.info.run_name: method for method, run in runs.by_method.items()}

    def drawn(driver) -> dict | None:
        found = {}
        for chart in driver.execute_script(CHARTS):
            columns = {}
            for line, (run, method) in product(chart["lines"], names.items()):
                if line["y"] and (line["name"] or "").startswith(run):
                    columns[method] = pd.Series(line["y"], index=line["x"])
            if set(columns) != set(runs.by_method) or chart["drawn"] < len(columns):
                return None
            found[chart["title"]] = pd.DataFrame(columns)
        return found if set(found) == set(titles) else None

    return ui.wait(chrome, drawn)


def logged(runs, key: str) -> pd.DataFrame:
    history = {
        method: runs.client.get_metric_history(run.info.run_id, key)
        for method, run in runs.by_method.items()
    }
    return pd.DataFrame(
        {method: pd.Series({m.step: m.value for m in values}) for method, values in history.items()}
    )


def test_the_chart_view_overlays_loss_profiles_and_curves(chrome, runs):
    roc = "mleval.curve/recall_at_false_positive_percent"
    found = charts(chrome, runs, "mleval.profile/binomial", "mleval.profile/polynomial", roc)
    profile = found["mleval.profile/binomial"]
    assert profile.index.tolist() == list(range(1, 8))
    assert (profile.diff().dropna() >= 0).all(axis=None)
    assert found[roc].index.tolist() == list(range(101))
    assert (found[roc].diff().dropna() >= 0).all(axis=None)
    for title, drawn in found.items():
        stored = logged(runs, title)[drawn.columns].sort_index()
        drawn = drawn.astype(float).sort_index()
        pd.testing.assert_frame_equal(drawn, stored, check_index_type=False)


def test_compare_shows_the_reports_side_by_side(chrome, runs):
    methods = ["random forest", "label powerset"]
    ids = [runs.by_method[method].info.run_id for method in methods]
    ui.open_comparison(chrome, runs.url, runs.experiment_id, ids, "mleval_report.html")
    frames = ui.wait(
        chrome, lambda d: len(f := d.find_elements("css selector", "iframe[sandbox]")) == 2 and f
    )
    assert frames[0].location["x"] + frames[0].size["width"] <= frames[1].location["x"]
    for frame, method in zip(frames, methods, strict=True):
        chrome.switch_to.frame(frame)
        expected = f"{method} on digits"
        assert ui.wait(chrome, lambda d: d.find_elements("tag name", "h1"))[0].text == expected
        chrome.switch_to.default_content()


def test_the_logged_comparison_opens_in_its_run(chrome, runs, server, tmp_path):
    mleval("report", "-n", "digits in the UI", "--seed :draws=200 --log -o report.html")
    (report,) = runs.client.search_runs([runs.experiment_id], "tags.`mleval.kind` = 'report'")
    ui.open_report(chrome, runs.url, runs.experiment_id, report.info.run_id)
    try:
        assert "nearest neighbours" in chrome.find_element("id", "decision").text
        ranking = chrome.find_element("id", "ranking").text
        assert all(method in ranking for method in runs.by_method)
        chrome.switch_to.default_content()
        assert report.info.run_name in chrome.find_element("tag name", "body").text
    finally:
        chrome.switch_to.default_content()
        runs.client.delete_run(report.info.run_id)  # to the other tests the experiment is as it was
