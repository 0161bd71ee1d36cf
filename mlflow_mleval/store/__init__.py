"""Reads and writes the store: results into runs, runs into a Study."""
