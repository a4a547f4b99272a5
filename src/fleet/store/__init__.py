"""Storage ports for the queue, and their adapters for SQLite, PostgreSQL and beads."""
