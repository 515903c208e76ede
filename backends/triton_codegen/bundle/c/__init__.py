"""The launcher of a bundle in C: sources, and the tables that are generated from the manifest."""
