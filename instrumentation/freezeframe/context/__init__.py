"""Where a piece of work belongs, and what its process is: run, lane, program, environment."""
