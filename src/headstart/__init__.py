"""Headstart."""
