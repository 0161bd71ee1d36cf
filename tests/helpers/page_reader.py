"""A member in front of the page, in a real browser."""

import base64
from urllib.parse import parse_qs, urlsplit

from waiting import PATIENCE

#: Every member's.
PASSWORD = "a long enough password"


class Reader:
    """A member in front of the page."""

    def __init__(self, chrome, site):
        self.chrome, self.site = chrome, site

    def login(self, member, width=1200, scheme="light", password=PASSWORD):
        known = base64.b64encode(f"{member}:{password}".encode()).decode()
        self.chrome.execute_cdp_cmd("Network.enable", {})
        self.chrome.execute_cdp_cmd(
            "Network.setExtraHTTPHeaders", {"headers": {"Authorization": f"Basic {known}"}}
        )
        self.look(width, scheme)

    def look(self, width, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)

    def open(self, query=""):
        self.chrome.get(f"{self.site.url}/mleval/{query}")

    def of(self, name, more=""):
        self.open(f"?experiment-id={self.site.ids[name]}{more}")

    def compares(self, member, name, more="", **look):
        """Log in, open the page on an experiment, and wait for the answer."""
        self.login(member, **look)
        self.of(name, more)
        self.answered()

    def js(self, code, *args):
        return self.chrome.execute_script(f"return {code}", *args)

    def until(self, code, *args, seconds=PATIENCE):
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        try:
            return WebDriverWait(self.chrome, seconds, 0.05).until(lambda d: self.js(code, *args))
        except TimeoutException:
            log = (self.site.folder / "server.log").read_text()[-1500:]
            raise AssertionError(
                f"not true after {seconds} seconds: {code} "
                f"{args}\n{self.text('body')[:1500]}\n{log}"
            ) from None

    def all(self, selector):
        return self.chrome.find_elements("css selector", selector)

    def find(self, selector):
        self.until("document.querySelector(arguments[0]) !== null", selector)
        return self.chrome.find_element("css selector", selector)

    def click(self, selector):
        self.find(selector)
        self.until("document.querySelector(arguments[0]).checkVisibility()", selector)
        element = self.chrome.find_element("css selector", selector)
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def changed(self, selector):
        """Tells the page that a control was changed, which a script has done."""
        event = "dispatchEvent(new Event('change', {bubbles: true}))"
        self.js(f"document.querySelector(arguments[0]).{event}", selector)

    def unfold(self, selector):
        opening = "forEach(part => { part.open = true; })"
        self.js(f"document.querySelectorAll(arguments[0]).{opening}", selector)

    def text(self, selector):
        return self.js("document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def answered(self):
        """The answer is there, its open sections are loaded, and nothing is under way."""
        self.until(
            "!!document.querySelector('#ranking table') && !document.querySelector('main.old, "
            "[aria-busy]')"
        )

    def chosen(self):
        return parse_qs(urlsplit(self.chrome.current_url).query)
