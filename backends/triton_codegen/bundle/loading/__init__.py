"""Reads, checks and launches a bundle with no other part of the toolkit: `joined` makes of these
modules the one file that lies in each bundle."""
