"""Build the site from the guides, the docstrings and the command line.

    pip install -e ".[docs]" && python .ci/site/make_site.py [FOLDER] [--address URL] [--into PAGES]

The site goes to FOLDER/site (build/site by default). Beside each page lies its Markdown, and
llms.txt lists the pages for programs that read them. A broken link or reference fails the build.
PAGES is what a web server shows: a folder for each version, and the menu to choose from them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from packaging.version import Version

import mlflow_mleval as mleval
from mlflow_mleval.cli import main as command_line

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CONFIG, EXTENSION = HERE / "zensical.toml", HERE / "docstring_examples.py"
#: Pages that lie elsewhere on the site than in the project; the others lose "examples/" only.
PLACES = {
    "README.md": "index.md",
    "examples/README.md": "overview.md",
    "docker/README.md": "docker.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.M | re.S)
#: A block that mkdocstrings fills, as `reference` writes it: the full name and the heading.
BLOCK = re.compile(r'^::: (\S+)\n    options:\n      heading: "(\S+)"\n.*\n', re.M)
PICTURES = {".svg", ".png"}
#: What each page of the reference is called, and what a reader takes from there.
IMPORT = "What `import mlflow_mleval as mleval` gives, from comparing to training."
OBJECTS = "What the functions of `mleval` take and return."
NAMESPACES = {
    "stats": "The tests by themselves: tables in, results out.",
    "losses": "Losses aware of the dependence of labels, and the predictions that minimise them.",
    "genai": "For runs of `mlflow.genai.evaluate`: scorers of label sets, or measures afterwards.",
    "callbacks": "How a model develops while it is trained, by framework.",
}


# --------------------------------------------------------------------------------------------------
# Pages that people wrote: the Markdown of the project, its links led to where the site has things.


def sources() -> list[Path]:
    """The Markdown of the project that readers of the site want, by its path in the project."""
    folders = ("guides", "studies")
    found = (path for name in folders for path in (ROOT / "examples" / name).glob("*.md"))
    skills = (ROOT / "mlflow_mleval").rglob("SKILL.md")
    return [Path(name) for name in PLACES] + sorted(p.relative_to(ROOT) for p in (*found, *skills))


def place(source: Path) -> Path:
    """Where the site has a file of the project: a page, a picture, or a page that shows a file."""
    name = source.as_posix()
    if name in PLACES:
        return Path(PLACES[name])
    if source.name == "SKILL.md":
        return Path("guides/skill.md")
    if source.suffix == ".md" or source.suffix in PICTURES:
        return Path(name.removeprefix("examples/"))
    return Path("files", f"{source.name}.md")


def linked(text: str, source: Path) -> Iterator[tuple[re.Match[str], Path]]:
    """The links of a page to files of the project, and these files."""
    fences = [match.span() for match in FENCE.finditer(text)]
    for match in LINK.finditer(text):
        inside = any(start <= match.start() < end for start, end in fences)
        if not inside and "://" not in match[1]:
            yield match, Path(os.path.normpath(source.parent / match[1]))


def page(source: Path) -> tuple[str, set[Path]]:
    """A page with its links as the site needs them, and the other files that it leads to."""
    text = (ROOT / source).read_text(encoding="utf-8")
    here, parts, end, others = place(source).parent, [], 0, set()
    for match, target in linked(text, source):
        if not (ROOT / target).is_file():
            raise SystemExit(f"{source} links to {match[1]}, which is no file.")
        address = os.path.relpath(place(target), here)
        parts += [text[end : match.start()], f"]({address}{match[2] or ''})"]
        end = match.end()
        if target.suffix != ".md":
            others.add(target)
    return "".join([*parts, text[end:]]), others


def shown(source: Path) -> str:
    """A page that shows a file of the project as it is."""
    kind = {".py": "python", ".yml": "yaml", ".cff": "yaml"}.get(source.suffix, "text")
    text = (ROOT / source).read_text(encoding="utf-8")
    return f"# {source.name}\n\n`{source.as_posix()}`\n\n````{kind}\n{text.rstrip()}\n````\n"


# --------------------------------------------------------------------------------------------------
# Pages from the code.


def commands() -> str:
    """Every command with what `--help` says."""
    blocks = ["# Commands", "`mleval COMMAND --help` prints the same in a terminal."]
    for name, command in [("", command_line), *sorted(command_line.commands.items())]:
        info = f"mleval {name}".rstrip()
        with click.Context(command, info_name=info, max_content_width=96) as context:
            blocks += [f"## {info}", f"```text\n{command.get_help(context)}\n```"]
    return "\n\n".join(blocks) + "\n"


def home(module: str, name: str) -> str:
    """The full name of what a table of public names calls `module` or `module:other`."""
    where, _, other = module.partition(":")
    return f"mlflow_mleval.{where}.{other or name}"


def reference(names: Iterable[tuple[str, str]]) -> str:
    """Blocks that mkdocstrings fills: of each object its heading and its full name."""
    options = "    options:\n      heading: {0}\n      toc_label: {0}\n"
    return "\n".join(f"::: {full}\n{options.format(json.dumps(shown))}" for shown, full in names)


def results(names: Iterable[str]) -> dict[str, str]:
    """The classes of the package that public functions return, by name their full name."""
    found = {}
    for name in names:
        function = getattr(mleval, name)
        returned = getattr(function, "__annotations__", {}).get("return")
        module = inspect.getmodule(function)
        kind = getattr(module, returned, None) if isinstance(returned, str) else returned
        if inspect.isclass(kind) and kind.__module__.startswith("mlflow_mleval"):
            found[kind.__name__] = f"{kind.__module__}.{kind.__name__}"
    return found


def references() -> dict[str, str]:
    """The pages of the reference by their place."""
    public = {n: m for n, m in mleval._PUBLIC.items() if n not in NAMESPACES}
    classes = {n: home(m, n) for n, m in public.items() if inspect.isclass(getattr(mleval, n))}
    functions = {f"mleval.{n}": home(m, n) for n, m in public.items() if n not in classes}
    pages = {
        "reference/mleval.md": f"# mleval\n\n{IMPORT}\n\n" + reference(functions.items()),
        "reference/results.md": f"# Objects\n\n{OBJECTS}\n\n"
        + reference((results(public) | classes).items()),
    }
    for name, about in NAMESPACES.items():
        where = import_module(f"mlflow_mleval.{name}").WHERE
        called = ((f"mleval.{name}.{n}", home(module, n)) for n, module in where.items())
        pages[f"reference/{name}.md"] = f"# mleval.{name}\n\n{about}\n\n" + reference(called)
    return pages | {"reference/commands.md": commands()}


def in_markdown(package: Any, full: str, heading: str) -> str:
    """For programs, what the generator shows of an object: its signature and its docstring."""
    described = package[full.removeprefix("mlflow_mleval.")]
    signature = described.signature() if described.is_function else f"class {described.name}"
    docstring = described.docstring.value if described.docstring else ""
    return f"## {heading}\n\n```python\n{signature}\n```\n\n{docstring}\n"


# --------------------------------------------------------------------------------------------------
# The build.


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def stage(folder: Path) -> dict[str, str]:
    """Lay everything out that the generator takes, and return the pages by their place."""
    pages = references()
    others: set[Path] = set()
    for source in sources():
        pages[place(source).as_posix()], more = page(source)
        others |= more
    for other in others:
        if other.suffix in PICTURES:
            target = folder / place(other)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / other, target)
        else:
            pages[place(other).as_posix()] = shown(other)
    for name, text in pages.items():
        write(folder / name, text)
    return pages


def summary(text: str) -> tuple[str, str]:
    """The title of a page and its first sentence, without the marks of Markdown."""
    title = re.search(r"^# (.+)$", text, re.M)
    text = re.sub(r"\A---$.*?^---$|<!--.*?-->", "", text, flags=re.M | re.S)
    prose = re.sub(r"^(#|!\[|\||:::|    |---).*$", "", FENCE.sub("", text), flags=re.M)
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose).split()
    sentence = re.split(r"(?<=[.:?])\s", " ".join(words), maxsplit=1)[0]
    return title[1] if title else "", sentence.rstrip(":")


def address_of(name: str) -> str:
    """The address of a page below that of the site."""
    path = name.removesuffix(".md")
    return "" if path == "index" else f"{path}/"


def index_for_programs(pages: dict[str, str], address: str) -> str:
    """llms.txt: what the project is, and each page with its Markdown and its first sentence."""
    _, about = summary(pages["index.md"])
    lines = [f"# mlflow-mleval {mleval.__version__}", "", f"> {about}"]
    folders = {"": "Start", "guides": "Guides", "reference": "Reference", "studies": "Studies"}
    for folder, heading in folders.items():
        lines += ["", f"## {heading}", ""]
        for name in sorted(n for n in pages if Path(n).parent == Path(folder)):
            title, sentence = summary(pages[name])
            lines.append(f"- [{title}]({address}{address_of(name)}index.md): {sentence}")
    return "\n".join(lines) + "\n"


def build(folder: Path, address: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    pages = stage(folder / "pages")
    config = CONFIG.read_text(encoding="utf-8").replace("https://mleval.invalid/", address)
    config = config.replace(EXTENSION.name, EXTENSION.as_posix())
    write(folder / "zensical.toml", config)
    shutil.copy(HERE / "site.css", folder / "pages")
    generator = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "zensical.toml"]
    subprocess.run(generator, cwd=folder, check=True)
    site = folder / "site"
    absent = [n for n in pages if not (site / address_of(n) / "index.html").is_file()]
    if absent:
        raise SystemExit(f"The generator left these pages out: {', '.join(absent)}.")
    import griffe

    package = griffe.load("mlflow_mleval", search_paths=[ROOT])
    for name, text in pages.items():
        plain = BLOCK.sub(lambda block: in_markdown(package, *block.groups()), text)
        write(site / address_of(name) / "index.md", plain)
    write(site / "llms.txt", index_for_programs(pages, address))
    return site


def listed(versions: list[dict], version: str) -> list[dict]:
    """The menu of versions with one more, the newest first; that one is called latest, too."""
    others = [entry["version"] for entry in versions if entry["version"] != version]
    names = sorted([*others, version], key=Version, reverse=True)
    aliases = [["latest"], *([] for _ in names)]
    return [{"version": n, "title": n, "aliases": a} for n, a in zip(names, aliases, strict=False)]


def publish(site: Path, pages: Path) -> None:
    """Put a site among those of other versions, and lead to the latest of them."""
    shutil.copytree(site, pages / mleval.__version__, dirs_exist_ok=True)
    menu = pages / "versions.json"
    before = json.loads(menu.read_text(encoding="utf-8")) if menu.exists() else []
    versions = listed(before, mleval.__version__)
    write(menu, json.dumps(versions, indent=2) + "\n")
    newest = versions[0]["version"]
    shutil.rmtree(pages / "latest", ignore_errors=True)
    shutil.copytree(pages / newest, pages / "latest")
    shutil.copy(pages / newest / "llms.txt", pages / "llms.txt")
    write(pages / "index.html", '<!doctype html><meta http-equiv="refresh" content="0; latest/">\n')


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build")
    parser.add_argument("--address", default="https://mleval.invalid/", help="where it will be")
    parser.add_argument("--into", type=Path, help="the folder of all versions")
    given = parser.parse_args()
    made = build(given.folder.resolve(), given.address.rstrip("/") + "/")
    if given.into:
        publish(made, given.into.resolve())
    print(given.into or made)
