#!/bin/sh
# Put a backup in the place of all that the stack holds now: docker/restore.sh FOLDER.
set -eu
from=$(cd "${1:?usage: restore.sh FOLDER}" && pwd)
cd "$(dirname "$0")"
tar -tf "$from/artifacts.tar" > /dev/null # whole, before anything is touched
database() { docker compose exec -T database "$@"; }

trap 'docker compose up --detach --wait' EXIT
docker compose up --detach --wait database
docker compose stop mlflow storage
# Into a database of its own: a dump that cannot be read leaves the present one as it is.
database dropdb --username=mlflow --if-exists restored
database createdb --username=mlflow restored
database pg_restore --username=mlflow --dbname=restored --exit-on-error --single-transaction < "$from/database.dump"
docker compose run --rm --no-deps -T --entrypoint sh storage \
  -c 'find /data -mindepth 1 -delete && tar -C /data -xf -' < "$from/artifacts.tar"
database dropdb --username=mlflow --force mlflow
database psql --username=mlflow --dbname=postgres --quiet --command='ALTER DATABASE restored RENAME TO mlflow'
