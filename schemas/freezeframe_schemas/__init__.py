"""The vocabulary of freezeframe: spans, runs, exchanges, fixtures, keys, wire dialects, tables, errors.

Pure values and functions. Must never open a file, a socket or a store: the edges do that.
"""
