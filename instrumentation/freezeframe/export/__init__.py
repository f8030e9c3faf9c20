"""From a finished span to the collector, a file or the spool. Nothing here runs on the agent's own thread but the queueing."""
