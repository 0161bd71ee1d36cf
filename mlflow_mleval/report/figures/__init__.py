"""Figures: plain tables in, SVG out. One module a figure."""
