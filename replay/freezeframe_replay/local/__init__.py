"""What freezeframe keeps and runs on this machine: the data directory, background processes, their check-up."""
