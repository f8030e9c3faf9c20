"""Runs: where one begins and ends, what it was given, and whether it can be started again."""
