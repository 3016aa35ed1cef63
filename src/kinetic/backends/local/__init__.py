"""The local backend: this machine, a per-user agent, a durable queue."""
