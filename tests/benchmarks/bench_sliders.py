"""Time from a slider's movement to the page that follows it, in Chromium, for 50 methods x 20
datasets x 16 measures.

    python tests/benchmarks/bench_sliders.py [repeats]

Script: what the browser spends in the event. Frame: until the page is drawn again. Release: what
comes on top when the hand lets go (tooltips, the table of ranks, the sentence). Median and worst,
in milliseconds. CPU: all that the page's thread computes for a movement and its release, which
other work on the machine leaves alone. Bound: 50 ms.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.study import Study

BOUND, REPEATS = 50, 40
METHODS, DATASETS, MEASURES = 50, 20, 16
MOVE = """
const [n, done] = arguments, sliders = [...document.querySelectorAll(".weights input[type=range]")], times = [];
const once = i => {
  const slider = sliders[i % sliders.length], script = performance.now();
  slider.value = Math.round(slider.max * ((i * 7) % 10 + 1) / 10);
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  const ran = performance.now();
  requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = () => {
    const drawn = performance.now();
    slider.dispatchEvent(new Event("change", {bubbles: true}));
    times.push([ran - script, drawn - script, performance.now() - drawn]);
    i + 1 < n ? requestAnimationFrame(() => once(i + 1)) : done(times);
  }; channel.port2.postMessage(0); });
};
once(0);"""  # noqa: E501


def page() -> str:
    rng = np.random.default_rng(0)
    quality = sum(
        rng.normal(size=size)
        for size in ((METHODS, 1, 1), (1, DATASETS, 1), (METHODS, DATASETS, MEASURES))
    )
    names = [f"measure_{j}" for j in range(MEASURES)]
    frame = pd.DataFrame(quality.reshape(-1, MEASURES), columns=names)
    frame.insert(0, "method", np.repeat([f"method_{i}" for i in range(METHODS)], DATASETS))
    frame.insert(0, "dataset", [f"dataset_{d}" for d in range(DATASETS)] * METHODS)
    return compare(Study.from_frame(frame, maximize=names)).report().to_html()


def cpu(driver: webdriver.Chrome) -> float:
    """Seconds of CPU that the page's thread has taken."""
    found = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(m["value"] for m in found if m["name"] == "TaskDuration")


def main() -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tempfile.mkdtemp()}",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    try:
        path = Path(tempfile.mkdtemp()) / "report.html"
        path.write_text(page(), encoding="utf-8")
        driver.get(path.as_uri())
        driver.execute_script("document.querySelector('.weights summary').click()")
        repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        before = cpu(driver)
        times = np.array(driver.execute_async_script(MOVE, repeats))
        each = (cpu(driver) - before) / repeats * 1e3
    finally:
        driver.quit()
    print(
        f"{METHODS} methods x {DATASETS} datasets x {MEASURES} measures, a page of "
        f"{path.stat().st_size / 1e3:,.0f} kB"
    )
    for name, column in zip(("script", "frame", "release"), times.T, strict=True):
        print(f"{name:8} median {np.median(column):6.1f} ms   worst {column.max():6.1f} ms")
    print(f"CPU      mean   {each:6.1f} ms, {each / BOUND:.2f} of the bound of {BOUND} ms")


if __name__ == "__main__":
    main()
