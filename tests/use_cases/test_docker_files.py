"""The compose stack as text: no secret, pinned, closed, and every service is checked; the versions
that the package declares are those that are tested, and of the oldest set.
"""

import configparser
import os
import re
import subprocess

import pytest
import yaml
from packaging.requirements import Requirement
from places import ROOT

import mlflow_mleval

DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
EXAMPLE = (DOCKER / ".env.example").read_text(encoding="utf-8")
REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")
OPTIONAL = re.compile(r"\$\{(\w+):-[^}]*\}")
SECRET = re.compile(r"PASSWORD|SECRET|KEY|TOKEN")


def declared(project: str) -> dict[str, Requirement]:
    """What the package needs, by name."""
    block = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.S | re.M)[1]
    requirements = map(Requirement, re.findall(r'^  "(.+)",$', block, re.M))
    return {requirement.name: requirement for requirement in requirements}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_checked_closed_and_takes_its_secrets_from_outside(name):
    service = SERVICES[name]
    check = service["healthcheck"]
    assert check["test"][0] == "CMD" and {"interval", "timeout", "retries"} <= set(check)
    # A check that ends in "or true" never fails; localhost may mean ::1, where nobody listens.
    assert not any("||" in part or "localhost" in part for part in check["test"])
    assert service["restart"] == "unless-stopped"
    waited_for = set(SERVICES) - {"mlflow"} if name == "mlflow" else ()
    healthy = {"condition": "service_healthy"}
    assert service.get("depends_on", {}) == dict.fromkeys(waited_for, healthy)
    secret = [value for key, value in service["environment"].items() if SECRET.search(key)]
    assert secret and all(REQUIRED.fullmatch(value) for value in secret), secret
    # Nor in a command or an address.
    shown = re.compile(r"://[^/\s]*:[^/@\s]*@|password=|secret=", re.I)
    assert not shown.search(yaml.safe_dump(service))
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"\d+g", service["mem_limit"]) and 100 <= service["pids_limit"] <= 1024
    # No number that a small machine does not have.
    assert re.fullmatch(r"\$\{[A-Z]+_CPUS:-[12]\}", service["cpus"])
    assert {"max-size", "max-file"} == set(service["logging"]["options"])
    # Each program wants a place for scratch files; what must last is a volume.
    assert any(place.startswith("/tmp") for place in service["tmpfs"])
    assert not {"privileged", "pid", "network_mode", "devices"} & set(service)


def test_the_example_names_every_variable_and_other_files_hold_no_secret_either():
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    required, optional = set(REQUIRED.findall(text)), set(OPTIONAL.findall(text))
    assert set(re.findall(r"^(\w+)=$", EXAMPLE, re.M)) == required
    assert not re.search(r"^\w+=.", EXAMPLE, re.M)
    assert set(re.findall(r"^#(\w+)=", EXAMPLE, re.M)) == optional
    assert set(re.findall(r"\$\{(\w+)", text)) == required | optional
    auth = configparser.ConfigParser()
    auth.read(DOCKER / "basic_auth.ini")
    assert "admin_password" not in auth["mlflow"] and "@" in auth["mlflow"]["database_uri"]
    assert not re.search(r"://[^/\s]*:[^/@\s]*@", auth["mlflow"]["database_uri"])
    assert auth["mlflow"]["default_permission"] == "READ"
    assert not re.search(r"^(ENV|ARG) .*(PASSWORD|SECRET|TOKEN)", DOCKERFILE, re.M)
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_images_are_pinned():
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert len(images) == 3
    for image in images:
        assert re.search(r":\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}$", image), image


def test_every_package_of_the_image_is_pinned_and_nothing_else_is_installed():
    text = (DOCKER / "requirements.lock").read_text(encoding="utf-8").replace(" \\\n", "")
    entry = re.compile(r"([\w.-]+)==(\d[\w.]*)(?: +--hash=sha256:[0-9a-f]{64})+")
    entries = [entry.fullmatch(line) for line in text.splitlines()]
    assert all(entries)
    locked = dict(each.groups() for each in entries)
    assert len(locked) == len(entries)
    locked = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in locked.items()}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    build = map(Requirement, re.findall(r'^requires = \["(.+)"\]$', project, re.M))
    wanted = [*declared(project).values(), *build]
    assert len(wanted) == 10
    for requirement in wanted:
        assert requirement.specifier.contains(locked[requirement.name]), requirement
    # MLflow's login, its database and its storage.
    assert {"flask-wtf", "psycopg2-binary", "boto3"} <= set(locked)
    installs = re.findall(r"pip install (.*?)(?: &&|$)", DOCKERFILE, re.M)
    assert installs == [
        "--no-deps --require-hashes --only-binary :all: -r /src/requirements.lock",
        "--no-deps --no-build-isolation /src",
    ]
    assert "&& pip check" in DOCKERFILE


def test_only_what_the_dockerfile_copies_reaches_the_builder_and_the_server_is_not_root():
    text = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    first, *lines = re.findall(r"^[^#\n].*", text, re.M)
    assert first == "*"
    copied = set(" ".join(re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.M)).split())
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)
    assert re.search(r"^USER (?!root|0)\w+", DOCKERFILE, re.M)
    build = SERVICES["mlflow"]["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).exists()


def test_only_entrypoints_that_begin_as_root_keep_capabilities():
    to_change_user = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
    kept = {name: service.get("cap_add", []) for name, service in SERVICES.items()}
    assert kept == {"mlflow": [], "database": to_change_user, "storage": to_change_user}
    assert "/var/run/postgresql" in SERVICES["database"]["tmpfs"]
    home = re.search(r"^WORKDIR (\S+)", DOCKERFILE, re.M)[1]
    assert home in SERVICES["mlflow"]["tmpfs"]


@pytest.mark.parametrize("name", ["backup.sh", "restore.sh"])
def test_scripts_are_sound_and_the_readme_shows_them(name, tmp_path):
    script = DOCKER / name
    assert os.access(script, os.X_OK)
    subprocess.run(["sh", "-n", script], check=True)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/bin/sh" and "set -eu" in lines
    bare = subprocess.run([script], cwd=tmp_path, capture_output=True, text=True)
    assert bare.returncode and f"usage: {name} FOLDER" in bare.stderr
    assert not list(tmp_path.iterdir())
    assert f"\n./{name} /" in (DOCKER / "README.md").read_text(encoding="utf-8")
    # Each service that it speaks to exists, and the server comes back however it ends.
    words = {word for line in lines if "docker compose" in line for word in line.split()}
    assert words & {"mlflow", "database", "storage"} == set(SERVICES)
    assert any(re.fullmatch("trap .* EXIT", line) for line in lines)
    assert "trap 'exit 1' HUP INT TERM" in lines


def test_only_the_server_is_reachable_and_by_default_only_from_its_own_machine():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["mlflow"]
    ports = SERVICES["mlflow"]["ports"]
    assert all(port.startswith("${MLFLOW_BIND:-127.0.0.1}:") for port in ports)
    assert COMPOSE["networks"]["back"] == {"internal": True}
    assert all(SERVICES[name]["networks"] == ["back"] for name in ("database", "storage"))


def test_what_must_last_lies_in_volumes():
    volumes = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    mounts = [mount.split(":") for mount in volumes]
    files = [mount for mount in mounts if mount[0].startswith(".")]
    assert files == [["./database.sh", "/docker-entrypoint-initdb.d/database.sh", "ro"]]
    assert os.access(DOCKER / "database.sh", os.X_OK)
    mounts = dict(mount for mount in mounts if mount not in files)
    assert set(mounts) == set(COMPOSE["volumes"])
    # Where PostgreSQL's image keeps its data from version 18 on.
    assert int(SERVICES["database"]["image"].split(":")[1].split(".")[0]) >= 18
    assert mounts["database"] == "/var/lib/postgresql"
    assert f"-dir={mounts['storage']}" in SERVICES["storage"]["command"]


def test_addresses_and_names_agree_between_services():
    command, environment = SERVICES["mlflow"]["command"], SERVICES["mlflow"]["environment"]
    database, storage = SERVICES["database"]["environment"], SERVICES["storage"]
    made = (DOCKER / "database.sh").read_text(encoding="utf-8")
    role, name = (re.search(rf"CREATE {kind} (\w+)", made)[1] for kind in ("ROLE", "DATABASE"))
    uri = f"postgresql+psycopg2://{role}@database:5432/{name}"
    assert f"--backend-store-uri={uri}" in command
    assert uri in (DOCKER / "basic_auth.ini").read_text(encoding="utf-8")
    (bucket,) = [part.split("=")[1] for part in storage["command"] if part.startswith("-bucket=")]
    assert f"--artifacts-destination=s3://{bucket}" in command
    assert environment["MLFLOW_S3_ENDPOINT_URL"] == "http://storage:8333"
    assert "-ip=storage" in storage["command"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert environment[name] == storage["environment"][name]
    password = environment["PGPASSWORD"]
    assert password == database["MLFLOW_DATABASE_PASSWORD"] != database["POSTGRES_PASSWORD"]
    assert f"COPY docker/basic_auth.ini {environment['MLFLOW_AUTH_CONFIG_PATH']}" in DOCKERFILE


def test_the_oldest_set_pins_what_is_declared():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = declared(project)
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert set(oldest) == set(wanted)
    for name, version in oldest.items():
        lower = [bound.version for bound in wanted[name].specifier if bound.operator == ">="]
        assert re.fullmatch(re.escape(lower[0]) + r"(\.0)*", version), (name, version, lower)
        assert wanted[name].specifier.contains(version)


def test_the_whole_check_uses_them():
    check = (ROOT / ".ci" / "run").read_text()
    assert "-c .ci/oldest.txt" in check
    named = re.search(r"tests/\{([\w/,]+)\}\.py", check)[1].split(",")
    assert all((ROOT / "tests" / f"{name}.py").exists() for name in named)


def test_the_recipe_for_conda_needs_what_the_package_needs():
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe[recipe.index("\n  run:") : recipe.index("\ntests:")]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = {(needs.name, str(needs.specifier)) for needs in declared(project).values()}
    python = re.search(r'^requires-python = "(.+)"$', project, re.M)[1]
    listed = [Requirement(line) for line in re.findall(r"^    - (.+)$", run, re.M)[1:]]
    assert {(needs.name, str(needs.specifier)) for needs in listed} == needed
    variants = (ROOT / ".ci" / "conda" / "variants.yaml").read_text(encoding="utf-8")
    assert f'python_min: ["{python.removeprefix(">=")}"]' in variants


def test_every_place_names_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {mlflow_mleval.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.M)[1] == mlflow_mleval.__version__
