"""Replay: a run rebuilt from its spans, re-enacted offline, and kept as a fixture.

`sources` load the spans, `engine.freeze` turns a run into a fixture, `engine.session` answers a program's calls from it,
`process.reenact` starts the program in a child process and returns the report, which `report` renders as text.
"""
