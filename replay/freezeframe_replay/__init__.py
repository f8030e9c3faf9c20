"""Replay: a run rebuilt from its spans, re-enacted offline, and kept as a fixture.

`sources` bring the spans, `engine.freeze` makes a fixture of a run, `engine.session` answers a program's calls from it,
`process.reenact` starts the program in a child process and brings back the report, which `report` puts into words.
"""
