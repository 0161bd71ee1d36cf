"""The report of one run: what a method reached on a dataset, as a page, as Markdown and as drawings."""
