"""Plans, starts, measures, checks, records and stops. It prints nothing: `lab.report` does."""
