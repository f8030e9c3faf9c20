"""Runs: beginning, end and input of each, and whether it can be started again."""
