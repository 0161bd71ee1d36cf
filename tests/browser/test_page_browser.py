"""The live page in a real browser on a real server with a login, for members of unlike rights."""

import base64
import json
import re
import shlex
import shutil
from itertools import product
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
import requests
from page_reader import PASSWORD, Reader
from page_servers import ADMIN, api, ask, grant, page_server
from waiting import MLFLOW_SETTINGS, PATIENCE

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.report.text import fixed
from mlflow_mleval.study import Study

pytestmark = [pytest.mark.browser, pytest.mark.server]
pytest.importorskip("selenium")
pytest.importorskip("flask_wtf", reason="no login for MLflow: pip install 'mlflow[auth]'")
from selenium.webdriver.common.keys import Keys  # noqa: E402

MEMBERS = ("ann", "bob", "nobody")
SCRIPT = "<script>alert(1)</script>"
RIGHTS = (
    *(("ann", "study", "EDIT"), ("bob", "study", "READ"), ("bob", "secret", "READ")),
    *(("ann", name, "READ") for name in ("plain", "close", SCRIPT)),
)
RACE = ("f1", "recall", "precision", "accuracy")
#: Controls of the form that are moved together, with what is typed into a field; of a menu the
#: second choice is taken.
MOVED = (
    {"p": "0.3", "alpha": "0.1", "weights": None, "unpaired": None, "exclude-measure": None},
    {"preference": None, "rope": "0.05", "test": None, "drop-constant": None, "percent": "f1"},
    {"seed": "3", "since": "2020-01-01", "on": None, "as-in-papers": None, "exclude-method": None},
    {"next": None, "ratio": "0.1", "protocol": None, "missing": None, "exclude-dataset": None},
    {"control": None, "shared": None, "duplicates": None, "cluster": "nothing"},
)
#: Those of which the page says why they do not fit these runs.
UNFIT = {"q": "0.1", "s": "0.1", "name-as": "nothing", "exclude-run": "nothing", "children": None}
UNFIT |= {"grades": "nothing", "cost": "nothing", "missing-is-failure": None}
UNFIT |= {"table": "nothing", "instance-by": "nothing", "step": None}
HOSTILE = ["<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "{{7*7}} \u202egnp.exe"]


def close_race() -> pd.DataFrame:
    """Four methods of which each leads by another measure."""
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {"dataset": d, "method": m} | dict(zip(RACE, rng.integers(1, 9, 4) / 10, strict=True))
        for d, m in product("uvwxyz", ("RF", "BR", "CC", "LP"))
    )


def fill(uri: str) -> dict[str, str]:
    """A study with a gap, plain runs, hostile names, and what only one member may see."""
    import mlflow
    from mlflow import MlflowClient

    from mlflow_mleval.store.importing import import_results

    rows = []
    for (j, d), (i, m) in product(enumerate("uvwxyz"), enumerate(("RF", "BR", "CC", "LP"))):
        f1 = 0.9 - 0.06 * i - 0.01 * ((i * 3 + j) % 4)
        rows.append((d, m, round(f1, 3), round(0.1 + 0.02 * i + 0.01 * ((i + 2 * j) % 3), 3)))
    results = pd.DataFrame(rows, columns=["dataset", "method", "f1", "hamming_loss"])
    gap = (results["method"] == "LP") & (results["dataset"] == "z")
    results.loc[gap, ["f1", "hamming_loss"]] = None
    mlflow.set_tracking_uri(uri)
    few = results[results["dataset"] < "x"]
    for name, table in (("study", results), ("secret", few), ("close", close_race())):
        import_results(table, experiment_name=name, conventions="sklearn")
    client = MlflowClient(uri)
    for name, metric, models, values in (
        ("plain", "gain", ("xgb", "rf", "mlp"), "abcd"),
        (SCRIPT, "f1", HOSTILE, HOSTILE),
    ):
        experiment = client.create_experiment(name)
        for (i, model), (j, data) in product(enumerate(models), enumerate(values)):
            run = client.create_run(experiment, run_name=model)
            of = {"model": model, "data": data}
            log(client, run, of, {metric: 0.9 - 0.1 * i - 0.02 * j})
    return {e.name: e.experiment_id for e in client.search_experiments()}


def log(client, run, params, metrics):
    from mlflow.entities import Metric, Param

    values = [Metric(*pair, 0, 0) for pair in metrics.items()]
    client.log_batch(run.info.run_id, values, [Param(*pair) for pair in params.items()])
    client.set_terminated(run.info.run_id, end_time=run.info.start_time)


def experiment_of(site, name):
    """A new experiment that ann may read."""
    experiment = site.ids[name] = site.client.create_experiment(name)
    grant(site, "ann", experiment, "READ")
    return experiment


@pytest.fixture(scope="module")
def site(empty_store, tmp_path_factory):
    """The server, its experiments by name, and what its administrator does."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copy(empty_store, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        for name in MLFLOW_SETTINGS:
            patch.delenv(name, raising=False)
        uri = f"sqlite:///{folder / 'mlflow.db'}"
        experiments = fill(uri)
        import mlflow

        mlflow.set_tracking_uri(None)
        client = mlflow.MlflowClient(uri)
    with page_server(folder, uri, base="basic-auth") as server:
        for member in MEMBERS:
            api(server, "users/create", {"username": member, "password": PASSWORD}, ADMIN)
        for member, name, right in RIGHTS:
            grant(server, member, experiments[name], right)
        server.ids, server.client = experiments, client
        yield server


@pytest.fixture
def reader(chrome, site):
    chrome.get_log("browser"), chrome.get_log("performance")
    yield Reader(chrome, site)
    ours = [
        entry["message"] for entry in chrome.get_log("browser") if "/mleval/" in entry["message"]
    ]
    # apart from answers that are no success
    assert not [message for message in ours if "Failed to load resource" not in message]
    chrome.get("about:blank")
    chrome.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})


def test_choosing_setting_and_comparing(reader, site):
    reader.login("ann")
    reader.open()
    reader.find("#experiments input")
    listed = [row.get_attribute("data-name") for row in reader.all("#experiments input")]
    assert sorted(listed) == sorted(["study", "plain", "close", SCRIPT])
    # by keyboard: search, then down to the experiment
    reader.find("#search").send_keys("plai")
    reader.until("document.querySelectorAll('#experiments input').length === 1")
    reader.find("#search").send_keys(Keys.ARROW_DOWN)
    reader.chrome.switch_to.active_element.send_keys(Keys.SPACE)
    # what they hold: nothing to type
    reader.until("!!document.querySelector('input[name=method-by][value=\"param:model\"]:checked')")
    assert "nobody has said" in reader.text("#survey .measures")
    reader.click("input[name=dataset-by][value='param:data']")

    def filtered(text=""):
        reader.find("#filter").clear()
        reader.find("#filter").send_keys(text, Keys.TAB)

    # an error of the filter stands beside it
    filtered("params.model ==")
    reader.until("document.querySelector('#filter-error').textContent.includes('filter')")
    assert reader.find("#filter").get_attribute("aria-invalid") == "true"
    filtered()
    reader.until("!!document.querySelector('#condition')")
    reader.js("document.querySelector('#condition').value = \"params.`data` = 'd'\"")
    reader.changed("#condition")
    facts = "document.querySelector('#facts')?.textContent"
    reader.until(f"{facts}.includes('3 finished runs')")
    filtered()
    reader.until(f"{facts}.includes('12 finished runs')")
    # which way is better: one click
    reader.js("document.querySelector('[data-direction=max][value=gain]').click()")
    reader.click("#compare")
    reader.answered()
    rules = {"method-by": ["param:model"], "dataset-by": ["param:data"], "max": ["gain"]}
    assert reader.chosen() == rules | {"experiment-id": [site.ids["plain"]]}
    assert "xgb" in reader.text("#decision")
    assert reader.text("#about").startswith("3 methods compared on 4 datasets by gain")
    assert not reader.js(
        "document.querySelector('#choose').open || document.querySelector('#hold').open"
    )


def test_a_stop_offers_its_ways_and_the_address_holds_what_was_chosen(reader, site):
    reader.login("ann")
    reader.of("study")
    reader.until("document.querySelector('#state').textContent.includes('no result')")
    assert [way.text.split()[0] for way in reader.all("#state a.way")] == ["Give", "Leave", "Leave"]
    reader.click("#state a.way")
    reader.answered()
    assert reader.chosen()["missing"] == ["worst"]
    # sections load when they are opened
    assert reader.js("document.querySelector('#stability .body').childElementCount") == 0
    reader.click("#evidence > summary")
    reader.click("#stability > summary")
    reader.until("document.querySelectorAll('#stability figure svg').length > 0")
    # a slider: the ranking follows at once, the tests when it is let go
    reader.click("#what-if > summary")
    reader.until("document.querySelectorAll('#what-if input[type=range]').length > 0")
    reader.click("#what-if .weights input[type=range]")
    reader.chrome.switch_to.active_element.send_keys(Keys.END)
    reader.until("new URLSearchParams(location.search).has('weights')")
    reader.answered()
    assert "weights" in reader.text("#about")
    assert reader.js("document.activeElement.type") == "range"
    # back and forward
    reader.chrome.back()
    reader.until("document.querySelector('#about').textContent.includes('entropy')")
    reader.answered()
    assert "weights" not in reader.chosen()
    reader.chrome.forward()
    reader.until("document.querySelector('#about').textContent.includes('weights')")


def test_each_method_keeps_its_numbers_after_a_slider(reader, site):
    """Also while the new ranking is there, and the sliders of the one before still are."""
    shown = """(({tHead, tBodies}) => {
        const at = [...tHead.rows[0].cells].findIndex(head => head.dataset.key === "phi");
        const name = row => row.querySelector("[data-method]").dataset.method;
        return [...tBodies[0].rows].map(row => [name(row), row.cells[at].textContent]);
    })(document.querySelector("table[data-key=ranking]"))"""
    reader.compares("ann", "close")
    before = reader.js(shown)
    reader.click("#what-if > summary")
    reader.find("#what-if .weights input[type=range]")
    reader.js("""void (window.held = {}, window.fetched = window.fetch,
    window.fetch = async (path, ...more) => {
        const answered = await fetched(path, ...more);
        if (path.includes("part=what-if")) await new Promise(go => { held.go = go; });
        return answered;
    })""")
    for number in range(1, 5):
        reader.click(f"#what-if li:nth-child({number}) input[type=range]")
        reader.chrome.switch_to.active_element.send_keys(Keys.END if number == 2 else Keys.HOME)
    reader.until("!!held.go")
    reader.until("!document.querySelector('main.old, #ranking [aria-busy], #decision [aria-busy]')")
    given = dict(pair.split("=") for pair in reader.chosen()["weights"][0].split(","))
    study = Study.from_frame(close_race(), maximize=RACE)
    c = compare(fuse(study, weights={name: float(weight) for name, weight in given.items()}))
    wanted = [[m, fixed(c.ranking.set_index("method")["phi"][m], 3)] for m in c.order]
    assert reader.js(shown) == wanted and [m for m, _ in wanted] != [m for m, _ in before]
    assert c.leader in reader.text("#decision")
    reader.js("void held.go()")
    reader.answered()
    assert reader.js(shown) == wanted
    assert reader.all("main .stale:not(td)") == []


def test_an_answer_ends_the_question_what_the_experiments_hold(reader, site):
    reader.compares("ann", "study", "&missing=worst")
    reader.js("""void (window.fetched = window.fetch, window.fetch = (path, {signal, ...more}) =>
        path.startsWith("survey?") ? new Promise((_, stop) => {
            signal.addEventListener("abort", () => stop(signal.reason));
        }) : fetched(path, {signal, ...more}))""")
    reader.click("#hold > summary")
    reader.find("#survey[aria-busy]")
    reader.js("void compare()")
    reader.answered()
    assert reader.text("#survey") == ""


def test_details_open_beside_and_close_with_escape(reader, site):
    reader.compares("ann", "study", "&missing=worst")
    reader.click("#ranking button.link")
    reader.until("document.querySelector('#detail[open] #detail-body').textContent.length > 20")
    assert "RF" in reader.text("#detail-title")
    assert reader.js("document.activeElement.closest('dialog') !== null")
    reader.click("#detail-body button.link")  # its first dataset
    link = reader.find("#detail-body a[href*='/runs/']").get_attribute("href")
    assert link.startswith(f"{site.url}/#/experiments/{site.ids['study']}/runs/")
    assert reader.text("#detail-title") == "RF on u"
    reader.click("#detail .back")
    reader.until("document.querySelector('#detail-title').textContent === 'RF'")
    reader.chrome.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not reader.js("document.querySelector('#detail').open")
    assert reader.js("document.activeElement.textContent") == "RF"
    reader.unfold("#evidence, #differences")
    reader.until("!!document.querySelector('#differences table')")
    reader.unfold("#differences details")
    for place, title in (("#differences", " against "), ("#datasets td", " on ")):
        reader.click(f"{place} button.link[aria-label*='{title}']")
        reader.until(
            "document.querySelector('#detail-title').textContent.includes(arguments[0])", title
        )
        reader.until("document.querySelector('#detail-body').textContent.length > 20")
        reader.click("#detail .close")


def test_share_download_store_and_new_runs(reader, site):
    reader.compares("ann", "study", "&missing=worst")
    title = reader.text("#title")
    reader.js("document.querySelector('.menu summary').click()")  # the list of files
    reader.until("document.querySelector('.sheet a')")
    files = reader.js("[...document.querySelectorAll('.sheet a')].map(a => a.href)")
    found = {parse_qs(urlsplit(f).query)["file"][0] for f in files}
    assert {"report.html", "report.json", "ranking.csv"} <= found
    assert any(".svg" in name for name in files)
    for name in (files[0], files[-1]):  # each takes a process
        got = requests.get(name, auth=("ann", PASSWORD), timeout=PATIENCE)
        assert got.status_code == 200 and got.content
        assert "attachment" in got.headers["Content-Disposition"]
    assert "mleval report" in reader.text(".sheet pre")
    assert "--" not in reader.text("#doubts")
    reader.click("#store")
    stored = reader.find("#stored a")
    place = stored.get_attribute("href")
    assert place.startswith(f"{site.url}/#/experiments/{site.ids['study']}/runs/")
    # new runs are announced, and nothing moves before the click
    client = site.client
    known = {"method": "NEW", "schema": "1", "status": "complete", "conventions": "sklearn"}
    for dataset in "uvwxyz":
        tags = {f"mleval.{name}": text for name, text in (known | {"dataset": dataset}).items()}
        run = client.create_run(site.ids["study"], tags=tags)
        log(client, run, {}, {"mleval/f1": 0.95, "mleval/hamming_loss": 0.05})
    reader.js("document.dispatchEvent(new Event('visibilitychange'))")
    reader.until("document.querySelector('#news').checkVisibility()")
    assert reader.text("#news").startswith("6 new runs since") and reader.text("#title") == title
    reader.click("#news")
    reader.until("document.querySelector('#about').textContent.startsWith('5 methods')")
    reader.answered()
    assert "NEW" in reader.text("#decision")


def test_one_method_is_judged_against_another(reader, site):
    reader.compares("ann", "study", "&missing=worst")
    reader.click("#may-replace > summary")
    reader.find("#gate-sides option[value='RF']")
    reader.find("#gate-f-candidate").send_keys("RF")
    reader.click("#gate button.primary")
    reader.until("document.querySelector('#gate-champion-error').textContent.includes('Choose')")
    reader.find("#gate-f-champion").send_keys("LP", Keys.ENTER)
    reader.until("!!document.querySelector('.gate-verdict svg')")
    assert "May RF replace LP?" in reader.text("#gate-answer")
    # the address holds what was asked, and shows it again
    assert reader.chosen()["gate.champion"] == ["LP"]
    reader.chrome.refresh()
    reader.until("!!document.querySelector('.gate-verdict svg')")
    reader.answered()


def test_who_comes_back_is_told_what_is_new_and_lands_where_the_address_says(reader, site):
    reader.login("ann")
    reader.open()
    reader.js("void localStorage.clear()")
    reader.of("study", "&missing=worst")
    reader.answered()
    assert reader.all("#since") == []
    seen = "Object.entries(JSON.parse(localStorage.getItem('mleval.visits')))"
    ((query, before),) = reader.js(seen)
    assert "missing=worst" in query and before["runs"] > 0
    leader = before["leader"]  # the runs of other tests are there, too
    assert leader and leader in reader.text("#ranking")
    older = {**before, "made": 1, "runs": before["runs"] - 3, "leader": "BR"}
    kept = "JSON.stringify({[arguments[0]]: arguments[1]})"
    keep = "void localStorage.setItem('mleval.visits', " + kept + ")"
    reader.js(keep, query, older)
    reader.chrome.get("about:blank")  # else the page would not load again
    reader.of("study", "&missing=worst#measures")
    reader.answered()
    told = f"Since your last visit: 3 new runs, {leader} now leads, BR led before."
    assert reader.text("#since") == told
    reader.until("!!document.querySelector('#measures[open] .body table')")
    reader.until(  # at the top, or as near to it as the end of the page lets it
        "Math.abs(document.querySelector('#measures').getBoundingClientRect().top) < 60 || "
        "scrollY > 0 && scrollY + innerHeight >= document.scrollingElement.scrollHeight - 1"
    )
    reader.js("void localStorage.clear()")


def test_over_time_goes_back_by_days_and_by_runs(reader, site):
    experiment = experiment_of(site, "days")
    for i in range(5):  # a dataset a day
        at = 1_700_000_000_000 + 86_400_000 * i
        for method, f1 in (("RF", 0.8 + 0.01 * i), ("BR", 0.7)):
            tags = {"mleval.method": method, "mleval.dataset": f"d{i}"}
            run = site.client.create_run(experiment, start_time=at, tags=tags)
            log(site.client, run, {}, {"f1": f1})
    reader.compares("ann", "days")
    assert reader.js("document.querySelector('#store').disabled")  # who only reads knows it before
    assert "takes the right to edit" in reader.text(".sheet")
    reader.click("#evidence > summary")
    reader.click("#over_time summary")
    reader.until("document.querySelector('#over_time .body').textContent.includes('18 Nov')")
    reader.js("void (document.querySelector('#each').value = '5')")
    reader.changed("#each")
    reader.until("document.querySelector('#over_time .body').textContent.includes('run 10')")
    assert "Large dot: leads." in reader.text("#over_time .body")


def one_dataset(site, name, values):
    """An experiment of three models, each with four seeds and what `values` says of it."""
    experiment = experiment_of(site, name)
    for (i, model), seed in product(enumerate(("RF", "BR", "CC")), range(4)):
        run = site.client.create_run(experiment)
        log(site.client, run, {"model": model, "seed": str(seed)}, values(i))


def test_a_direction_that_its_name_proposes_is_taken_and_said(reader, site):
    rng = np.random.default_rng(0)
    one_dataset(site, "tone", lambda i: {"tone_loss": i + rng.normal() / 9})
    reader.compares("ann", "tone")  # without a click
    assert reader.chosen()["directions"] == ["proposed"]
    assert reader.all("#ranking bdi[data-method]")[0].text == "RF"
    assert "Nobody has said which way is better" in reader.text("#decision .ways")
    right, wrong = reader.all("#decision .ways a.way")
    assert (right.text, wrong.text) == ("“tone_loss”: smaller is better ✓", "No, larger is better")
    wrong.click()
    reader.until("new URLSearchParams(location.search).has('max')")
    reader.answered()
    assert reader.all("#ranking bdi[data-method]")[0].text == "CC"
    assert not reader.all("#decision .ways")


def test_a_doubt_is_settled_where_its_number_stands(reader, site):
    """Single runs are dots; with the shift key a click makes a row B; the gate has the margin."""
    rng = np.random.default_rng(0)
    values = lambda i: {"f1": 0.8 - 0.01 * i + 0.02 * rng.normal(), "win_rate": 0.5 + 0.1 * i}  # noqa: E731
    one_dataset(site, "one dataset", values)
    reader.compares("ann", "one dataset")
    assert len(reader.all("#ranking circle.single")) == 12
    # no flag of the command line, wherever one looks
    reader.unfold("main details")
    reader.until("!document.querySelector('main [aria-busy], main .body:empty')")
    texts = "[...document.querySelectorAll('main .body')].map(part => part.innerText).join('\\n')"
    seen = "\n".join(line for line in reader.js(texts).split("\n") if "mleval " not in line)
    assert not re.findall(r"(?<![\w-])--[a-z]+", seen)
    # rows are sides of the question
    sides = "[...document.querySelectorAll('h1 select')].map(side => side.value)"
    third = next(m for m in ("RF", "BR", "CC") if m not in reader.js(sides))
    row = reader.find(f"#ranking tbody tr:has([data-method={third}]) td:last-child")
    shifted = {"bubbles": True, "shiftKey": True}
    reader.js("arguments[0].dispatchEvent(new MouseEvent('click', arguments[1]))", row, shifted)
    reader.until(f"{sides}[1] === arguments[0]", third)
    reader.answered()
    # what the gate says when the margin is let go
    reader.find(".said .margins input").send_keys(Keys.END)
    reader.until(
        "/[?] (SHIP|BLOCK|RUN MORE)[.]/.test(document.querySelector('.gated')?.textContent)"
    )
    # the button beneath the verdict
    assert "1 dataset by f1" in reader.text("#about")
    reader.click("#decision .verdict + .ways a.way")
    reader.until("new URLSearchParams(location.search).has('max')")
    reader.answered()
    assert reader.chosen()["measure"] == ["f1", "win_rate"]
    assert reader.chosen()["max"] == ["win_rate"] and not reader.all("#decision .ways")
    reader.click(".actions .menu > summary")
    reader.click(".sheet .buttons button")
    reader.until("document.querySelector('.sheet .buttons button').textContent === 'Copied ✓'")


def test_hostile_names_are_text(reader, site):
    from selenium.common.exceptions import NoAlertPresentException

    reader.compares("ann", SCRIPT, "&method-by=run_name&dataset-by=param:data")
    reader.unfold("details:not(.menu)")
    for there in ("#survey fieldset", "#experiments input"):
        reader.find(there)
    reader.until("!document.querySelector('[aria-busy]')")
    reader.click("#ranking button.link")
    reader.until("document.querySelector('#detail[open] #detail-body').textContent.length > 20")
    seen = reader.text("body")
    for name in (SCRIPT, HOSTILE[0], HOSTILE[1], "{{7*7}}"):
        assert name in seen
    assert "\u202e" not in seen and "49 " not in reader.text("#ranking")
    with pytest.raises(NoAlertPresentException):
        _ = reader.chrome.switch_to.alert.text
    assert reader.all("img, iframe, object, embed, [onload], [onerror], [style], style") == []
    assert reader.js("[...document.scripts].filter(s => s.type !== 'application/json').length") == 3


def test_who_may_see_nothing_is_told_what_to_do(reader, site):
    reader.login("nobody")
    reader.open()
    none = "no experiment here that you may read"
    reader.until("document.querySelector('#experiments').textContent.includes(arguments[0])", none)
    assert "ask whoever owns" in reader.text("#experiments")
    reader.of("secret")
    reader.until("document.querySelector('#state').textContent.includes('may not see')")
    assert "secret" not in reader.text("body")
    # a login that ended, a database that is down, a server that is gone
    gone = {
        "resolve(new Response('', {status: 401}))": "login has ended",
        "reject(new TypeError())": "server does not answer",
        "resolve(new Response('{}', {status: 503}))": "store does not answer",
    }
    for answer, said in gone.items():
        reader.js(f"void (window.fetch = () => Promise.{answer}, compare())")
        reader.until("document.querySelector('#state').textContent.includes(arguments[0])", said)


VIOLATIONS = """
const done = arguments[0];
axe.run().then(found => done(found.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 200))])));
"""  # noqa: E501


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(reader, site, axe, scheme, width):
    reader.login("ann", width, scheme)

    def check():
        reader.chrome.execute_script(axe)
        assert reader.chrome.execute_async_script(VIOLATIONS) == []
        assert reader.js("document.scrollingElement.scrollWidth") <= width

    reader.of("study")
    for there in ("#survey fieldset", "#state a.way"):
        reader.find(there)
    reader.unfold("#selection details")
    reader.find("#experiments input")
    check()
    reader.click("#state a.way")
    reader.answered()
    reader.unfold("main details")
    reader.until("!document.querySelector('[aria-busy]')")
    reader.unfold("main details:not(.menu)")
    check()
    reader.js("document.querySelector('#ranking button.link').click()")
    reader.until("document.querySelector('#detail[open] #detail-body').textContent.length > 20")
    check()


def test_paper_holds_the_answer_only(reader, site):
    reader.compares("ann", "study", "&missing=worst")
    paper = base64.b64decode(reader.chrome.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert paper.startswith(b"%PDF")
    reader.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    shown = "[...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).length"
    away = "#selection, .actions, button:not(.link), input, .ways, #gate"
    assert reader.js(shown, away) == 0
    assert reader.js(shown, "#decision .body, #ranking table") >= 2
    reader.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_mlflows_own_pages_lead_here(reader, site):
    study = site.ids["study"]
    reader.login("ann", width=1400)
    reader.chrome.get(f"{site.url}/#/experiments/{study}/runs")
    of_study = f"{site.url}/mleval/?experiment-id={study}"
    for place in ("side", "runs"):
        link = "document.getElementById(arguments[0])?.href === arguments[1]"
        reader.until(link, f"mleval-{place}", of_study)
    reader.until("document.querySelectorAll('.ag-row .ag-checkbox-input').length > 2")
    for box in reader.all(".ag-row .ag-checkbox-input")[:3]:
        box.click()
    of_three = "document.getElementById('mleval-runs')?.textContent"
    reader.until(f"{of_three} === '⇄ Which of 3 runs is better?'")
    # folded, the side bar shows icons; what is drawn once stays while MLflow's page changes
    assert reader.text("#mleval-side") == "⇄Which is better?"
    reader.click("button[aria-label='Toggle sidebar']")
    reader.until("document.getElementById('mleval-side')?.textContent === '⇄'")
    drawn = "document.getElementById('mleval-side')"
    reader.js(f"void (window.drawn = {drawn}, document.body.append(document.createElement('i')))")
    with pytest.raises(AssertionError):
        reader.until(f"window.drawn !== {drawn}", seconds=2)
    reader.click("button[aria-label='Toggle sidebar']")
    reader.click("#mleval-runs")
    reader.until("location.pathname === '/mleval/'")
    chosen = reader.chosen()
    assert chosen["experiment-id"] == [study] and chosen["filter"][0].count("'") == 6
    # MLflow's own comparison leads to exactly its runs
    found = api(site, "runs/search", {"experiment_ids": [study]}, ADMIN)["runs"]
    tags = {}
    for run in found:
        pairs = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
        tags[run["info"]["run_id"]] = pairs
    two = [i for i, t in tags.items() if t.get("mleval.dataset") == "u"][:2]
    compared = f"runs={json.dumps(two)}&experiments={json.dumps([study])}"
    reader.chrome.get(f"{site.url}/#/compare-runs?{compared}")
    reader.until("document.getElementById('mleval-side')?.href.includes('filter=')")
    reader.click("#mleval-side")
    reader.answered()
    assert reader.chosen()["filter"] == [f"attributes.run_id IN ('{two[0]}', '{two[1]}')"]
    expected = {tags[i]["mleval.method"] for i in two}
    assert {option.text for option in reader.all("h1 option")} == expected
    assert reader.text(".asked .verdict b") == "TOO CLOSE"
    assert "chance is not excluded" in reader.text(".asked .verdict")
    # where MLflow's page has neither place, a button stands in the corner
    reader.chrome.get(f"{site.url}/#/experiments/{study}/runs")
    reader.until("document.getElementById('mleval-side') !== null")
    reader.js("document.querySelectorAll('aside, [data-testid]').forEach(e => e.remove())")
    reader.until("document.getElementById('mleval-corner')?.href === arguments[0]", of_study)


def test_the_question_moves_and_its_numbers_are_those_of_the_command(reader, site):
    reader.compares("ann", "close", width=800)
    sides = "[...document.querySelectorAll('h1 select')].map(side => side.value)"

    def rows():
        code = "[...document.querySelectorAll('.said [data-row]')]"
        return [json.loads(text) for text in reader.js(f"{code}.map(row => row.dataset.row)")]

    def agrees():
        a, b = reader.js(sides)
        assert reader.text("h1").startswith("Is ")
        asked = f"{urlsplit(reader.chrome.current_url).query}&file=report.json"
        told = ask(site.url, f"download?{asked}", ("ann", PASSWORD)).json()["question"]
        assert (told["a"], told["b"]) == (a, b)
        assert reader.text(".asked .verdict b") == told["verdict"]
        for end in ("low", "high"):
            assert rows()[0][end] == pytest.approx(told["rows"][0][end])
        return a, b

    first = agrees()
    reader.js("document.querySelectorAll('h1 select')[0].focus()")
    third = next(m for m in ("RF", "BR", "CC", "LP") if m not in first)
    row = f"#ranking tbody tr:has([data-method={third}]) td:last-child"
    reader.click(row)
    reader.until(f"{sides}[0] === arguments[0]", third)
    reader.answered()
    assert agrees()[0] == third == reader.chosen()["pair"][0]
    slider = reader.find(".said .margins input")
    slider.send_keys(Keys.END)  # no difference is as large
    assert reader.text(".asked .verdict b") == "NO"
    assert float(reader.text(".margins output")) == pytest.approx(rows()[0]["reach"], rel=0.05)
    slider.send_keys(Keys.HOME)
    agrees()
    # net flows are no measure: the gate takes the margins of the measures that were dragged
    own, gated = ".said .own input", "document.querySelector('.gated')?.textContent"
    reader.until(f"/within the usual margin[?] [A-Z ]+[.]/.test({gated})")
    reader.find(own).send_keys(Keys.END)
    measure, _ = reader.find(own).get_attribute("aria-label").split()[-1], agrees()
    reader.until(
        f"/{measure} worse by .+ at most, the others within .+[?] [A-Z ]+[.]/.test({gated})"
    )
    dragged = reader.text(".own output")
    assert float(dragged) == pytest.approx(rows()[1]["reach"], rel=0.05)
    word = reader.text(".gated").partition("? ")[2].partition(".")[0].lower()
    reader.click(".gated button")
    reader.until("!!document.querySelector('.gate-verdict')")
    assert reader.chosen()["gate.margin"] == [f"{measure}={dragged}"]
    assert reader.find(".gate-verdict").get_attribute("data-decision") == word


def not_told(text, told):
    """Numbers with decimals in the text that are no number of the JSON, rounded as they are."""

    def every(value):
        if isinstance(value, dict | list):
            held = value.values() if isinstance(value, dict) else value
            return [number for one in held for number in every(one)]
        return [abs(value)] if isinstance(value, int | float) else []

    numbers = np.unique(every(told))
    lost = []
    for number, percent in re.findall(r"(?<![\w.])(\d*\.\d+)(%?)", text):
        last = 10.0 ** -len(number.partition(".")[2])
        scaled = numbers * (100 if percent else 1)
        if np.abs(scaled - float(number)).min() > 0.501 * last:
            lost.append(number + percent)
    return lost


def test_every_control_shows_what_the_command_on_the_page_says(reader, site, monkeypatch):
    """Each menu, field and box of the form is moved; the order of the methods, the verdict, every
    row of its plot and every other number with decimals are those of the command that the page
    gives for it.
    """
    from command_line import mleval

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{site.folder / 'mlflow.db'}")
    reader.login("ann", width=800)
    shown = "[...document.querySelectorAll('.said [data-row]')]"
    order = "[...document.querySelectorAll('#ranking [data-key=ranking] tbody [data-method]')]"

    def agrees():
        program, *args = shlex.split(reader.text(".sheet pre"))
        told = json.loads(mleval(*args, "--output", "json").stdout)
        assert program == "mleval"
        ranked = reader.js(f"{order}.map(name => name.dataset.method)")
        assert ranked == [row["method"] for row in told["ranking"]]
        asked = told["question"]
        assert reader.text(".said .verdict b") == asked["verdict"]
        rows = [json.loads(text) for text in reader.js(f"{shown}.map(row => row.dataset.row)")]
        decides = [row for row in rows if row["decides"]]
        sizes = [row["size"] for row in decides]
        expected = [row["difference"] for row in asked["rows"][: len(decides)]]
        assert decides and sizes == pytest.approx(expected)
        measures = {row["difference"] for row in asked["measures"]}
        for row in rows[len(decides) :]:
            assert any(row["size"] == pytest.approx(size) for size in measures)
        ticks = "[...document.querySelectorAll('main thead svg text')].map(e => e.textContent)"
        text = reader.js("document.querySelector('main').innerText")
        assert {*not_told(text, told)} <= {*reader.js(ticks)}

    def form(*of):
        reader.chrome.get("about:blank")
        reader.of(*of or ("close",))
        reader.answered()
        reader.click("#hold > summary")
        reader.find("#survey select")
        reader.unfold("#survey details")

    def settled(moves, *of):
        """Whether there is an answer when these controls, by their selectors, are set to a value or
        clicked; it agrees. Else the page says why.
        """
        form(*of)
        for selector, (_, value) in moves.items():
            control = reader.find(f"#hold {selector}")
            choose = "arguments[1] ? (arguments[0].value = arguments[1]) : arguments[0].click()"
            fire = "arguments[0].dispatchEvent(new Event('change', {bubbles: true}))"
            reader.js(
                f"void ({choose}, arguments[2] && {fire})", control, value, bool(of and value)
            )
        reader.until("!document.querySelector('#survey[aria-busy]')")
        reader.click("#compare")
        for name, _ in moves.values():
            reader.until("new URLSearchParams(location.search).has(arguments[0])", name)
        told = "#state .say, #survey .error"
        wrong = f"[...document.querySelectorAll('{told}')].map(e => e.innerText)"
        there = "!!document.querySelector('#ranking table')"
        still = "!!document.querySelector('main.old, [aria-busy]')"
        reader.until(f"{wrong}.join('') !== '' || {there} && !{still}")
        if reader.js(f"{wrong}.join('')"):
            return False
        agrees()
        return True

    form()
    menus = "[...document.querySelectorAll('#survey select[id^=f-]')]"
    second = dict(reader.js(f"{menus}.map(menu => [menu.name, menu.options[1]?.value])"))
    typed = "#survey input[id^=f-], #survey input[type=checkbox][value='1']"
    fields = f'[...document.querySelectorAll("{typed}")]'
    known = {*second, *reader.js(f"{fields}.map(field => field.name)")}
    known |= {f"exclude-{of}" for of in ("measure", "method", "dataset")}
    assert known == {name for group in (*MOVED, UNFIT) for name in group}
    listed = {"exclude-measure": "[data-measure=recall]"}
    listed |= {name: f"[data-off={name}]" for name in ("exclude-method", "exclude-dataset")}
    for group in (*MOVED, UNFIT):
        moves = {}
        for name, typed in group.items():
            is_field = name in second or typed
            selector = listed.get(name) or (f"#f-{name}" if is_field else f"[name={name}]")
            moves[selector] = name, typed or second.get(name, "")
        assert settled(moves) is (group is not UNFIT), group
    # how runs of others are read: what names methods, datasets and repeats, which runs, which way
    read = "plain", "&method-by=param:model&dataset-by=param:data&max=gain"
    for selector, name, value in (
        ("input[name=dataset-by][value=experiment]", "dataset-by", ""),
        ("[data-direction=min][value=gain]", "min", ""),
        ("#filter", "filter", "params.model != 'mlp'"),
        ("#condition", "filter", "params.`model` = 'rf'"),
        ("[name=method-by]:not(:checked):not(#also-method-by)", "method-by", ""),
        ("#also-method-by", "method-by", "run_name"),
        ("#also-dataset-by", "dataset-by", "digest"),
        ("#also-repeats-by", "repeats-by", "param:data"),
    ):
        moved_to = settled({selector: (name, value)}, *read)
        assert moved_to or selector != "#filter", selector
    # sides in the title
    form()
    for at in (0, 1):
        side = f"document.querySelectorAll('h1 select')[{at}]"
        other = reader.js(f"[...{side}.options].map(o => o.value).at(-1 - {at})")
        change = f"{side}.dispatchEvent(new Event('change'))"
        reader.js(f"void ({side}.value = arguments[0], {change})", other)
        pair = "new URLSearchParams(location.search).getAll('pair')"
        reader.until(f"{pair}[{at}] === arguments[0]", other)
        reader.answered()
        agrees()
