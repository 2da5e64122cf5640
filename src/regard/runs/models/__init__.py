"""Models in folders: saved, loaded, initialised from, adapted, exported."""
