"""The engine: a run as a fixture, and the session that answers a program's calls from it."""
