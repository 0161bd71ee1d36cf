"""Passwords of any characters, a search for them, and commands that must show none."""

import re
from pathlib import Path

CORE = "hUsH4Zq"
#: Each has the core on both sides of what a parser may stumble over; the first 25 can stand in
#: the environment of a process in any locale.
PASSWORDS = [
    CORE + middle + CORE[::-1]
    for middle in (
        *("", "/", "#", "?", "@", ":", "%", "&", "=", " ", "%2F", "%40", "é", "\\", "://", "]"),
        *("[", "?a=", "/x?password=", "@/", ":80/", "'", '"', "?a=b&", "#token=", "密", "\n"),
    )
]
NAMED = ["-n", "x"]
COMMANDS = [
    ["import", "results.csv", *NAMED],
    ["evaluate", "predictions.csv", "--method", "m0", "--dataset", "y", *NAMED],
    ["runs", *NAMED, "--output", "json"],
    ["rank", *NAMED, "--missing", "worst", "--output", "json"],
    ["compare", *NAMED, "--missing", "worst", "--output", "json"],
    ["profile", *NAMED, "--dataset", "y"],
    ["report", *NAMED, "--missing", "worst", "--seed", ":draws=20", "-o", "report.html"],
    ["report", *NAMED, "--missing", "worst", "--seed", ":draws=20", "--output", "json", "--log"],
]


def clean(text: object) -> None:
    """No part of the password is in the text, in whatever form."""
    text = str(text)
    shown = re.search(f"{CORE}|{CORE[::-1]}", text, re.IGNORECASE)
    assert not shown, text[max(0, shown.start() - 200) : shown.end() + 200]


def write_inputs() -> None:
    """What the commands read, into the working folder."""
    given = {
        "results.csv": "dataset,method,measure,value\n"
        + "".join(
            f"d{d},m{m},{name},{(d * 3 + m) / 20}\n"
            for d in range(6)
            for m in range(3)
            for name in ("f1", "recall")
        ),
        "predictions.csv": "true_a,score_a,true_b,score_b\n1,0.9,0,0.4\n0,0.2,1,0.7\n",
    }
    for name, text in given.items():
        Path(name).write_text(text)
