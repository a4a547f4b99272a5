"""fleet runs a fleet of coding agents through one durable queue."""

__version__ = "0.1.0"
