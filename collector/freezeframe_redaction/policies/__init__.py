"""Policies: the built-in ones as TOML files, and the classes that a policy's author adds."""
