"""What travels with a job: its function and arguments, its source tree, its environment."""
