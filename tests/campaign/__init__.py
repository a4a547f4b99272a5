"""Several hosts in network namespaces that share one PostgreSQL, faults that befall them, and who audits it."""
