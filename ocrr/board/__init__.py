"""Checks of contributions to the leaderboard: replayed, and run again."""
