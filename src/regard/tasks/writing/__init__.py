"""Text to text: translation and summarisation."""
