"""Run the SQL of strangers in its own process, which has nothing to steal and can be killed.

    collector                      host (warm, one thread)            reader (one statement)
    ReaderHost.take() ----------->  fork  -------------------------->  sandbox, open, check, run, answer, exit

Three walls, each sufficient alone (``tests/store/test_walls.py``): the kernel's, which lets a reader open the store's
parts and nothing else (`sandbox`); the engine's, which grants SELECT and SHOW (`catalog`); and a check of each statement by the
engine's own parser (`guard`).
"""
