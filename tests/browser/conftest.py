"""What drives a page in a real browser, beside the browser itself."""

import shutil
import subprocess

import pytest
from page_reader import Reader
from waiting import PATIENCE


@pytest.fixture
def until(chrome):
    """Wait until a function of the browser returns something true; else say what never came."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    def until(found, awaited: str):
        try:
            return WebDriverWait(chrome, PATIENCE, 0.05).until(found)
        except TimeoutException:
            shown = chrome.execute_script("return document.body?.innerText ?? ''")
            where = f"not there after {PATIENCE} seconds at {chrome.current_url}"
            raise AssertionError(f"{awaited}: {where}:\n{shown[:1500]}") from None

    return until


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> str:
    """The script of axe-core, which looks for what keeps people out; from npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine")
    folder = tmp_path_factory.mktemp("axe")
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    command = [npm, "install", *options, "axe-core@4.14.1"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=PATIENCE)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def show(chrome, tmp_path):
    """Open a page at a width and in a colour scheme; logs are empty before."""

    def show(page: str, width: int = 600, scheme: str = "light"):
        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        chrome.get_log("browser"), chrome.get_log("performance")
        Reader(chrome, site=None).look(width, scheme)
        chrome.get(path.as_uri())
        return chrome

    return show
