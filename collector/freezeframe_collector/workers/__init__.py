"""Several processes that receive, one that owns the log and the store.

A worker receives, decodes, normalises and redacts, and hands the redacted batch to the owner over a socket pair (`channel`);
the owner puts it into its log like its own batches, and the worker acks once the owner confirms that it is on the disk. So
there is one log, one order, one memory of duplicates and one set of books, whichever worker a span came
through; a worker that dies loses only spans that were not acked. For the reasons see decision 0012.
"""
