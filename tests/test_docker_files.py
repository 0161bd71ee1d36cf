"""The compose stack as text: it parses, keeps no secret, pins its images and checks the health of every service."""

import configparser
import re
from pathlib import Path

import pytest
import yaml

DOCKER = Path(__file__).parents[1] / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
EXAMPLE = (DOCKER / ".env.example").read_text(encoding="utf-8")
REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")
OPTIONAL = re.compile(r"\$\{(\w+):-[^}]*\}")
SECRET = re.compile(r"PASSWORD|SECRET|KEY|TOKEN")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_checked_restarted_and_waited_for(name):
    service = SERVICES[name]
    check = service["healthcheck"]
    assert check["test"][0] == "CMD" and {"interval", "timeout", "retries"} <= set(check)
    # A check that ends in "or true" never fails; localhost may mean ::1, where nobody listens.
    assert not any("||" in part or "localhost" in part for part in check["test"])
    assert service["restart"] == "unless-stopped"
    assert all(how == {"condition": "service_healthy"} for how in service.get("depends_on", {}).values())


def test_the_server_waits_for_both_stores():
    assert set(SERVICES["mlflow"]["depends_on"]) == set(SERVICES) - {"mlflow"}


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_come_from_outside_and_are_required(name):
    secret = {key: value for key, value in SERVICES[name]["environment"].items() if SECRET.search(key)}
    assert secret and all(REQUIRED.fullmatch(value) for value in secret.values()), secret
    # Nor in a command or an address.
    assert not re.search(r"://[^/\s]*:[^/@\s]*@|password=|secret=", yaml.safe_dump(SERVICES[name]), re.I)


def test_the_example_names_every_variable_and_gives_no_value():
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    required, optional = set(REQUIRED.findall(text)), set(OPTIONAL.findall(text))
    lines = [line.partition("=") for line in EXAMPLE.splitlines() if line and not line.startswith("#")]
    assert {name for name, _, _ in lines} == required and not any(value for _, _, value in lines)
    assert set(re.findall(r"^#(\w+)=", EXAMPLE, re.M)) == optional
    assert set(re.findall(r"\$\{(\w+)", text)) == required | optional


def test_other_files_hold_no_secret_either():
    auth = configparser.ConfigParser()
    auth.read(DOCKER / "basic_auth.ini")
    assert "admin_password" not in auth["mlflow"] and "@" in auth["mlflow"]["database_uri"]
    assert not re.search(r"://[^/\s]*:[^/@\s]*@", auth["mlflow"]["database_uri"])
    assert not re.search(r"^(ENV|ARG) .*(PASSWORD|SECRET|TOKEN)", DOCKERFILE, re.M)
    assert ".env" in (DOCKER.parent / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_images_and_packages_are_pinned():
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert len(images) == 3
    for image in images:
        assert re.search(r":\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?$", image), image
    install = re.search(r"^RUN pip install (.*?) &&", DOCKERFILE, re.M)[1]
    packages = [part.strip('"') for part in install.split() if part != "/src"]
    assert packages and all(re.fullmatch(r"[\w.\[\]-]+==[\d.]+", package) for package in packages)


def test_what_the_dockerfile_copies_exists_and_the_server_does_not_run_as_root():
    root = DOCKER.parent
    for sources in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.M):
        assert all((root / source).exists() for source in sources.split())
    assert re.search(r"^USER (?!root|0)\w+", DOCKERFILE, re.M)
    assert (DOCKER / SERVICES["mlflow"]["build"]["context"] / SERVICES["mlflow"]["build"]["dockerfile"]).exists()


def test_only_the_server_is_reachable_and_by_default_only_from_its_own_machine():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["mlflow"]
    assert all(port.startswith("${MLFLOW_BIND:-127.0.0.1}:") for port in SERVICES["mlflow"]["ports"])
    assert COMPOSE["networks"]["back"] == {"internal": True}
    assert all(SERVICES[name]["networks"] == ["back"] for name in ("database", "storage"))


def test_what_must_last_lies_in_volumes():
    mounts = dict(mount.split(":") for name in SERVICES for mount in SERVICES[name].get("volumes", []))
    assert set(mounts) == set(COMPOSE["volumes"])
    # Where PostgreSQL's image keeps its data from version 18 on; before, it was the folder data below.
    assert int(SERVICES["database"]["image"].split(":")[1].split(".")[0]) >= 18
    assert mounts["database"] == "/var/lib/postgresql"
    assert f"-dir={mounts['storage']}" in SERVICES["storage"]["command"]


def test_addresses_and_names_agree_between_services():
    command, environment = SERVICES["mlflow"]["command"], SERVICES["mlflow"]["environment"]
    database, storage = SERVICES["database"]["environment"], SERVICES["storage"]
    uri = f"postgresql+psycopg2://{database['POSTGRES_USER']}@database:5432/{database['POSTGRES_DB']}"
    assert f"--backend-store-uri={uri}" in command
    assert uri in (DOCKER / "basic_auth.ini").read_text(encoding="utf-8")
    (bucket,) = [part.split("=")[1] for part in storage["command"] if part.startswith("-bucket=")]
    assert f"--artifacts-destination=s3://{bucket}" in command
    assert environment["MLFLOW_S3_ENDPOINT_URL"] == "http://storage:8333" and "-ip=storage" in storage["command"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert environment[name] == storage["environment"][name]
    assert environment["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
    assert f"COPY docker/basic_auth.ini {environment['MLFLOW_AUTH_CONFIG_PATH']}" in DOCKERFILE
