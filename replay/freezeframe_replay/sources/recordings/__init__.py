"""Recordings: files of other tools that hold what a run said to the outside, read as spans. Nothing in them is evaluated."""
