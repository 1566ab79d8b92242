"""Plan a cost graph: solve, prove and compare schedules under a byte budget."""
