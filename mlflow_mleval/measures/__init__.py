"""Arrays in, numbers out: every measure, with its direction, range and source."""
