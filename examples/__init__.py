"""Programs that show Encamp at work; run them from the repository's root."""
