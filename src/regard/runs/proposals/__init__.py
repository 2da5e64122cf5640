"""First recipes for a user's own data: what it was recognised as, a recipe and a study."""
