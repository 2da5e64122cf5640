"""The form of a recipe: from the settings' schema to fields, and from fields to TOML."""
