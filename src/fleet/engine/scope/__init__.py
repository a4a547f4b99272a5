"""Scope: where an agent may write, what it did outside of that, and how fleet tells."""
