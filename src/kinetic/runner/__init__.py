"""What runs inside a job, on every backend: materialise, call, record.

Nothing else ever executes a user's function.
"""
