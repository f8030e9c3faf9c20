"""Recordings: files of other tools with a run's outside communication, read as spans. Nothing in them is evaluated."""
