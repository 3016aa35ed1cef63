"""The agent: one process a user that accepts, starts, watches and settles jobs."""
