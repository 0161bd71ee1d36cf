#!/bin/sh
# Back up the stack to a new folder: docker/backup.sh FOLDER. The server rests meanwhile, so that runs and artifacts agree.
set -eu
umask 077 # a backup holds all results and the users' hashed passwords
to=${1:?usage: backup.sh FOLDER}
[ ! -e "$to" ] || { echo "backup.sh: $to exists. Name a new folder." >&2; exit 2; }
part=$(mktemp -d "$to.part.XXXXXX") # only a whole backup gets the name
part=$(cd "$part" && pwd) to=$(cd "$(dirname "$to")" && pwd)/$(basename "$to")
cd "$(dirname "$0")"

trap 'rm -rf "$part"; docker compose up --detach --wait' EXIT
trap 'exit 1' HUP INT TERM
docker compose stop mlflow storage
docker compose exec -T database pg_dump --username=mlflow --format=custom mlflow > "$part/database.dump"
docker compose run --rm --no-deps -T --entrypoint tar storage -C /data -cf - . > "$part/artifacts.tar"
mv "$part" "$to"
