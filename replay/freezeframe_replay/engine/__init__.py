"""The engine: a run as a fixture, and what answers a program's calls from it."""
