"""From a finished span to the collector, a file or the spool. Only the queueing runs on the agent's own thread."""
