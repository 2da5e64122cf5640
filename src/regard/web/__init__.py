"""The page: runs, studies and lessons in a browser, on this machine alone (`regard serve`).

    browser ─► guard ─► app ─► views ─► listing (id → folder), watch, workers ─► reports' parts

Needs the extra `page`. Nothing here is imported before `regard serve` runs.
"""
