"""Figures: plain tables in, SVG out."""
