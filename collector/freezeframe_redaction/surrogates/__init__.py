"""Surrogates: replacements for values of each class, in their shape, that belong to no one."""
