"""The casts of open runs: the values found in each, by which their forms are replaced wherever they occur in the run.

A process that redacts knows the casts (`known`) and reports the values found in a batch (`found`). The owner of
the log keeps those, sealed (`book`), and sends it to every process that redacts. When a run has ended, or
paused, its stored spans are searched once more
for everything that was found (`settler`). After its grace time a cast is destroyed.
"""
