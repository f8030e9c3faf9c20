"""Texts with their private values as tokens, for those who have no key."""
