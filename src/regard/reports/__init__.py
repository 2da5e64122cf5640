"""HTML reports, charts and tables, from run folders and study outcomes alone."""
