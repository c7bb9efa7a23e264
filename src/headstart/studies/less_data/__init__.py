"""Less Data, Faster Training: repeating smaller datasets speeds up learning via sampling biases (2026)."""
