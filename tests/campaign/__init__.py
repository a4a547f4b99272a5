"""Campaigns: hosts in network namespaces that share one PostgreSQL, faults that hit them, and an auditor."""
