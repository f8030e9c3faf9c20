"""Replay: a run rebuilt from its spans, re-enacted offline, and kept as a fixture.

The engine is `freeze` (run -> fixture), `session` (answers a program's calls from a fixture), `isolate` (fences and clock) and
`reenact` (starts the program in a child process and brings back the report).
"""
