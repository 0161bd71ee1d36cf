#!/bin/sh
# Put a backup in the place of all that the stack holds now: docker/restore.sh FOLDER.
# Database and artifacts are unpacked beside the present ones, and change places with them once both are whole.
set -eu
from=$(cd "${1:?usage: restore.sh FOLDER}" && pwd)
cd "$(dirname "$0")"
# Whole, before anything is touched: tar itself takes an archive that was cut between two files, but for its end of zeros.
tar -tf "$from/artifacts.tar" > /dev/null
if [ "$(tail -c 1024 "$from/artifacts.tar" | tr -d '\0' | wc -c)" -ne 0 ]; then
  echo "restore.sh: $from/artifacts.tar was cut off. Take another backup." >&2
  exit 1
fi

database() {
  program=$1
  shift
  docker compose exec -T database "$program" --username=postgres "$@"
}
rename() { # two databases, both or none
  database psql --dbname=postgres --quiet --set=ON_ERROR_STOP=1 --single-transaction \
    --command="ALTER DATABASE $1 RENAME TO $2" --command="ALTER DATABASE $3 RENAME TO $4"
}
storage() { docker compose run --rm --no-deps -T --entrypoint sh storage "$@"; }
swap() { # .restored becomes the content of the folder, and that becomes .replaced; or all stays as it is
  storage -eus /data <<'EOF'
cd "$1"
move() { find "$1" -mindepth 1 -maxdepth 1 ! -name .restored ! -name .replaced -exec sh -c 'mv "$@" "$0"' "$2" {} +; }
rm -rf .replaced
mkdir .replaced
back() { move .replaced . && rmdir .replaced && exit 1; }
move . .replaced || back
move .restored . || { move . .restored && back; }
EOF
}
clean() { # what was unpacked and is not in use
  database dropdb --if-exists --force restored || true
  storage -c 'rm -rf /data/.restored' || true
  docker compose up --detach --wait
}

trap clean EXIT
trap 'exit 1' HUP INT TERM
docker compose up --detach --wait database
docker compose stop mlflow storage

database dropdb --if-exists --force restored
database createdb --owner=mlflow restored
# As MLflow's role: a dump is a program, and shall not run as the superuser.
docker compose exec -T database pg_restore --username=mlflow --dbname=restored --no-owner --exit-on-error --single-transaction \
  < "$from/database.dump"
storage -euc 'rm -rf /data/.restored; mkdir /data/.restored; tar -C /data/.restored -xf -' < "$from/artifacts.tar"

database dropdb --if-exists --force replaced
# A database that somebody uses cannot be renamed.
database psql --dbname=postgres --quiet --output=/dev/null \
  --command="SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'mlflow'"
rename mlflow replaced restored mlflow
if ! swap; then
  rename mlflow restored replaced mlflow
  echo "restore.sh: the artifacts could not change places. All is as it was." >&2
  exit 1
fi
database dropdb --force replaced
storage -c 'rm -rf /data/.replaced'
