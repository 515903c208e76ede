"""Charts of a table of results, as plain SVG."""
