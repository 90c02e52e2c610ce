"""Measures speed and memory: `make bench` runs most of it, README.md lists all."""
