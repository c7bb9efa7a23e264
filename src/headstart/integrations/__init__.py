"""Level 7: Headstart inside other people's training loops. Each module needs an extra; none is imported by default."""
