"""Level 1: random streams, roles, units, traces, metrics and errors. Imports nothing of Headstart above it."""
