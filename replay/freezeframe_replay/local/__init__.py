"""Freezeframe on this machine: the data directory, background processes, and their check-up."""
