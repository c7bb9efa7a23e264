"""Headstart inside other people's training loops; a framework needs its extra, and none is imported by default."""
