"""Plans, starts, measures, checks, records and stops. It never prints; `lab.report` does."""
