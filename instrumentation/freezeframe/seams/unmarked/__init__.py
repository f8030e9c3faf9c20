"""What unmarked code reaches outside the process, so that the run can name it as a gap."""
