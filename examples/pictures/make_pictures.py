"""Make the pictures of README and guides: a report, the live page, and what MLflow's own pages show
of evaluated runs.

Runs the demo on the published study and cross-validates five methods on real data: scikit-learn's
handwritten digits, where the labels of an image are the segments a to g that its digit lights in a
seven-segment display. Needs Chromium, chromedriver and selenium; takes about two minutes. The
picture of a training's epochs needs Keras and PyTorch, and is left as it is without them.

    python examples/pictures/make_pictures.py [--into FOLDER] [report] [page] [ui]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

import mlflow_mleval as mleval

HERE = Path(__file__).resolve().parent
#: By picture, what it was drawn from; a test compares that with the code.
DRAWN_FROM = HERE / "drawn_from.json"
#: Pictures of the page as a desk, a tablet and a phone show it, by their width.
WIDTHS = {1400: "page.png", 800: "page_tablet.png", 360: "page_phone.png"}
SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # A mouse, as on a desk: without one, every chart shows its toolbar all the time.
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,"
    "availablePointerTypes=4",
)
# The classic pages, and no chat window over them.
CLASSIC = "workflowType=machine_learning"
NO_CHAT = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"


# MLflow colours runs by chance; these can be told apart, by the colour-blind too.
COLOURS = ("#e69f00", "#0072b2", "#009e73", "#cc79a7", "#333333")
# Seconds until drawings have stopped moving.
SETTLE = 4


class LabelPowerset(ClassifierMixin, BaseEstimator):
    """Every set of labels that occurs is one class; the score of a label is the probability of the
    sets that hold it.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, Y):
        self.sets_, classes = np.unique(Y, axis=0, return_inverse=True)
        self.estimator.fit(X, classes.ravel())
        return self

    def predict(self, X):
        return self.sets_[self.estimator.predict(X)]

    def predict_proba(self, X):
        return np.clip(self.estimator.predict_proba(X) @ self.sets_, 0, 1)


def cross_validate_digits(
    experiment: str = "digits", folds: int = 10, **options: Any
) -> dict[str, mleval.Evaluation]:
    """Five methods on one dataset, a run each, in the store that MLFLOW_TRACKING_URI names."""
    X, digits = load_digits(return_X_y=True)
    Y = np.array(
        [[segment in SEGMENTS[digit] for segment in "abcdefg"] for digit in digits], dtype=int
    )
    linear = LogisticRegression(max_iter=1000)
    methods = {
        "binary relevance": MultiOutputClassifier(linear),
        "classifier chain": ClassifierChain(linear),
        "label powerset": LabelPowerset(linear),
        "random forest": RandomForestClassifier(random_state=0),
        "nearest neighbours": KNeighborsClassifier(),
    }
    cv = KFold(folds, shuffle=True, random_state=0)
    names = list("abcdefg")
    # Matrices this small gain nothing from threads, which cost a hundredfold where the machine is
    # busy.
    with threadpool_limits(1):
        return {
            method: mleval.cross_validate(
                estimator,
                X / 16,
                Y,
                cv=cv,
                method=method,
                dataset="digits",
                label_names=names,
                experiment_name=experiment,
                **options,
            )
            for method, estimator in methods.items()
        }


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """MLflow's server on the store in the folder, as `mlflow server --app-name mleval` starts it
    there.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--app-name",
        "mleval",
        "--workers",
        "1",
        "--port",
        str(port),
    ]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                if urlopen(f"{url}/health", timeout=2).status == 200:
                    break
            except OSError:
                time.sleep(0.2)
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@contextmanager
def browser(profile: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    chrome = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NO_CHAT})
        yield chrome
    finally:
        chrome.quit()


def size(chrome: webdriver.Chrome, width: int, height: int) -> None:
    chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )


def wait(chrome: webdriver.Chrome, found, seconds: int = 240):
    return WebDriverWait(
        chrome, seconds, ignored_exceptions=[StaleElementReferenceException]
    ).until(found)


def open_report(chrome: webdriver.Chrome, url: str, experiment_id: str, run_id: str) -> None:
    """The report in its run's artifact page; the browser is left inside the frame."""
    chrome.get(
        f"{url}/#/experiments/{experiment_id}/runs/{run_id}/artifacts/mleval_report.html?{CLASSIC}"
    )
    wait(chrome, lambda d: d.find_elements(By.CSS_SELECTOR, "iframe[sandbox]"))
    chrome.switch_to.frame(chrome.find_element(By.CSS_SELECTOR, "iframe[sandbox]"))
    wait(chrome, lambda d: d.find_elements(By.CSS_SELECTOR, "details.section"))


def open_charts(chrome: webdriver.Chrome, url: str, experiment_id: str, search: str) -> None:
    """The chart view of an experiment, with the charts whose name holds the text or one of several
    between bars.
    """
    chrome.get(f"{url}/#/experiments/{experiment_id}/runs?{CLASSIC}&compareRunsMode=CHART")
    wait(
        chrome,
        lambda d: d.find_elements(
            By.CSS_SELECTOR, "[data-testid=experiment-view-compare-runs-card]"
        ),
    )

    def found(driver: webdriver.Chrome) -> bool:
        # The page makes the box anew when its runs arrive, and forgets what was typed.
        box = driver.find_element(By.CSS_SELECTOR, "input[placeholder='Search metric charts']")
        if box.get_attribute("value") != search:
            box.send_keys(Keys.CONTROL, "a", Keys.NULL, search)
            return False
        cards = driver.find_elements(
            By.CSS_SELECTOR, "[data-testid=experiment-view-compare-runs-card]"
        )
        return bool(cards) and all(re.search(search, card.text) for card in cards)

    wait(chrome, found)


def open_comparison(
    chrome: webdriver.Chrome, url: str, experiment_id: str, run_ids: list[str], artifact: str
) -> None:
    """What the button Compare opens for the runs, and the artifact that all of them have, side by
    side.
    """
    runs, experiments = (
        quote(json.dumps(ids, separators=(",", ":"))) for ids in (run_ids, [experiment_id])
    )
    chrome.get(f"{url}/#/compare-runs?runs={runs}&experiments={experiments}&{CLASSIC}")
    named = f"[artifact-name='{artifact}']"
    # The page folds its sections open only some time after it has filled them.
    wait(
        chrome, lambda d: [e for e in d.find_elements(By.CSS_SELECTOR, named) if e.is_displayed()]
    )[0].click()
    header = "//*[contains(@class, 'collapse-header') and normalize-space()='Artifacts']"
    chrome.execute_script("arguments[0].scrollIntoView()", chrome.find_element(By.XPATH, header))


def picture_report(chrome: webdriver.Chrome, page: Path, target: Path) -> None:
    """The report as a file, down to the end of the ranking."""
    chrome.get(page.as_uri())
    size(chrome, 1200, 1000)
    bottom = chrome.execute_script(
        "return document.getElementById('ranking').getBoundingClientRect().bottom"
    )
    size(chrome, 1200, int(bottom) + 8)
    chrome.save_screenshot(str(target))


def log_plain_runs(url: str) -> str:
    """Runs as plain MLflow has them, with metrics that mleval does not know; their experiment."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(url)
    experiment = client.create_experiment("churn models")
    auc = {
        "gradient boosting": 0.91,
        "random forest": 0.9,
        "logistic regression": 0.86,
        "nearest neighbours": 0.82,
    }
    for at, (data, model) in enumerate(
        (d, m) for d in ("bank", "telecom", "insurance", "retail") for m in auc
    ):
        run = client.create_run(experiment)
        metrics = {"test_auc": auc[model] - 0.013 * (at % 5), "seconds": 3 + 7 * len(model) % 11}
        client.log_batch(
            run.info.run_id,
            [Metric(*pair, 0, 0) for pair in metrics.items()],
            [Param("model", model), Param("data", data), Param("seed", "0")],
        )
        client.set_terminated(run.info.run_id)
    return experiment


def picture_page(chrome: webdriver.Chrome, url: str, pictures: Path) -> None:
    """The live page: an answer down to the end of the ranking at each width, what some runs hold,
    and a pair in detail.
    """
    from mlflow import MlflowClient

    study = MlflowClient(url).get_experiment_by_name("madjarov2012").experiment_id
    ready = (
        "return document.querySelector('#ranking table') && !document.querySelector('main.old, "
        "[aria-busy]')"
    )
    for width, name in WIDTHS.items():
        size(chrome, width, 900)
        chrome.get(f"{url}/mleval/?experiment-id={study}&missing=worst")
        wait(chrome, lambda d: d.execute_script(ready), 120)
        bottom = chrome.execute_script(
            "return document.getElementById('ranking').getBoundingClientRect().bottom"
        )
        size(chrome, width, int(bottom) + 8)
        save(chrome, pictures / name)

    size(chrome, 1200, 900)
    for key in ("evidence", "differences"):
        chrome.find_element(By.CSS_SELECTOR, f"#{key} > summary").click()
    wait(chrome, lambda d: d.find_elements(By.CSS_SELECTOR, "#differences [data-against]"))
    chrome.execute_script(
        "document.querySelector('#differences button:has([data-against])').click()"
    )
    wait(chrome, lambda d: d.find_elements(By.CSS_SELECTOR, "#detail-body table"))
    save(chrome, pictures / "page_detail.png")

    experiment = log_plain_runs(url)
    chrome.get(f"{url}/mleval/")
    wait(
        chrome,
        lambda d: d.find_elements(By.CSS_SELECTOR, f"#experiments input[value='{experiment}']"),
    )[0].click()
    wait(chrome, lambda d: d.find_elements(By.CSS_SELECTOR, "#survey fieldset"))
    bottom = chrome.execute_script(
        "return document.querySelector('#survey .measures').getBoundingClientRect().bottom + "
        "scrollY"
    )
    size(chrome, 1200, int(bottom) + 60)
    save(chrome, pictures / "page_choose.png")


def save(chrome: webdriver.Chrome, path: Path) -> None:
    """What the browser shows, in few colours, so that it stays small."""
    time.sleep(1)
    with Image.open(BytesIO(chrome.get_screenshot_as_png())) as shot:
        shot.convert("RGB").quantize(200, dither=Image.Dither.NONE).save(path, optimize=True)


def picture_server(chrome: webdriver.Chrome, url: str, pictures: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(url)
    study = client.get_experiment_by_name("madjarov2012").experiment_id
    (report,) = client.search_runs([study], "tags.`mleval.kind` = 'report'")
    size(chrome, 1400, 900)
    open_report(chrome, url, study, report.info.run_id)
    chrome.switch_to.default_content()
    time.sleep(SETTLE)
    chrome.save_screenshot(str(pictures / "ui_report.png"))

    cross_validate_digits()
    experiment = client.get_experiment_by_name("digits").experiment_id
    runs = {
        run.data.tags["mleval.method"]: run.info.run_id for run in client.search_runs([experiment])
    }
    for run_id, colour in zip(runs.values(), COLOURS, strict=True):
        client.set_tag(run_id, "mlflow.runColor", colour)
    size(chrome, 1400, 1130)
    open_charts(chrome, url, experiment, "mleval.profile|fold/f1|fold/subset_accuracy")
    chrome.find_element(By.CSS_SELECTOR, "button[aria-label='Toggle sidebar']").click()
    time.sleep(SETTLE)
    chrome.save_screenshot(str(pictures / "ui_profiles.png"))


def picture_epochs(chrome: webdriver.Chrome, url: str, pictures: Path) -> None:
    """The epochs of three networks, trained by the example for Keras."""
    if not all(map(find_spec, ("keras", "torch"))):
        print("without Keras and PyTorch, ui_epochs.png stays as it is", file=sys.stderr)
        return
    from mlflow import MlflowClient

    example = HERE.parent / "scripts" / "callbacks_keras.py"
    subprocess.run(
        [sys.executable, str(example)], check=True, env=os.environ | {"KERAS_BACKEND": "torch"}
    )
    client = MlflowClient(url)
    experiment = client.get_experiment_by_name("keras").experiment_id
    for run, colour in zip(client.search_runs([experiment]), COLOURS, strict=False):
        client.set_tag(run.info.run_id, "mlflow.runColor", colour)
    size(chrome, 1400, 720)
    open_charts(chrome, url, experiment, "epoch/(f1|hamming_loss|subset_accuracy)")
    time.sleep(SETTLE)
    chrome.save_screenshot(str(pictures / "ui_epochs.png"))


def states(report: str) -> dict[str, str]:
    """By picture a digest of what it was drawn from, by the code as it is: the words of the demo's
    report down to the end of the ranking, the style and forms around them, and the measures that a
    run has.
    """
    top = report[report.index("<h1") : report.index('id="differences"')]
    words = re.sub(
        r"<(style|script)\b.*?</\1>|<[^>]*>|\d{4}-\d\d-\d\d[T ][\d:]+", " ", top, flags=re.S
    )
    package = Path(mleval.__file__).parent
    style = [package / "report" / "templates" / "report.css"]
    forms = [
        *sorted((package / "server").glob("templates/*")),
        *(package / "server").glob("*/*.css"),
    ]
    small = mleval.evaluate([[1, 0], [0, 1], [1, 1]], [[0.9, 0.2], [0.3, 0.8], [0.6, 0.4]])
    measures = small.report().to_markdown().partition("## Measures")[2].partition("\n## ")[0]
    drawn_from = {
        digest(words, style): ("report.png", "ui_report.png"),
        digest(words, style + forms): (*WIDTHS.values(), "page_choose.png", "page_detail.png"),
        digest(measures, []): ("ui_profiles.png", "ui_epochs.png"),
    }
    return {name: state for state, names in drawn_from.items() for name in names}


def digest(words: str, files: list[Path]) -> str:
    texts = [" ".join(words.split()), *(path.read_text(encoding="utf-8") for path in files)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def stale(report: str) -> list[str]:
    """The pictures that were drawn from another state than that of the code."""
    drawn = json.loads(DRAWN_FROM.read_text(encoding="utf-8"))
    return [name for name, state in states(report).items() if drawn.get(name) != state]


def make(pictures: Path, names: list[str]) -> None:
    """Those of the report, of the page, and of MLflow's own pages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = [sys.executable, "-c", "from mlflow_mleval.cli import main; main()", "demo"]
        subprocess.run(demo, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with browser(folder / "chrome") as chrome, server(folder) as url:
            os.environ["MLFLOW_TRACKING_URI"] = url
            if "report" in names:
                picture_report(chrome, folder / "mleval_report.html", pictures / "report.png")
            if "page" in names:
                picture_page(chrome, url, pictures)
            if "ui" in names:
                picture_server(chrome, url, pictures)
                picture_epochs(chrome, url, pictures)
        made = states((folder / "mleval_report.html").read_text(encoding="utf-8"))
    drawn = json.loads(DRAWN_FROM.read_text(encoding="utf-8"))
    drawn |= {name: state for name, state in made.items() if re.split(r"[_.]", name)[0] in names}
    DRAWN_FROM.write_text(json.dumps(drawn, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the pictures anew.")
    parser.add_argument(
        "names", nargs="*", default=["report", "page", "ui"], help="report, page, ui"
    )
    parser.add_argument("--into", type=Path, default=HERE)
    given = parser.parse_args()
    make(given.into, given.names)
