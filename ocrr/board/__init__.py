"""Contributions to the leaderboard: what is in one, and how it is checked."""
