"""Reports: HTML, charts, tables of runs and studies, from what they wrote."""
