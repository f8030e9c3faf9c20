"""Accesses of unmarked code outside the process, which a run names as gaps."""
