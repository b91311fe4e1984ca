"""Token files of texts in the formats of Hugging Face's libraries: `paceline data import-hf`."""
