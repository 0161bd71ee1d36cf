"""Results in, pages out: terminal, JSON, CSV, Markdown, LaTeX and HTML with SVG figures."""
