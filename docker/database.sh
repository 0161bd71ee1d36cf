#!/bin/sh
# Runs once, when the volume of the database is made: MLflow's role, which owns its database and is no superuser.
set -eu
psql --username=postgres --dbname=postgres --quiet --set=ON_ERROR_STOP=1 <<'SQL'
\getenv password MLFLOW_DATABASE_PASSWORD
SET log_min_error_statement = panic; -- what fails would stand in the log with its password
CREATE ROLE mlflow LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE mlflow OWNER mlflow;
SQL
