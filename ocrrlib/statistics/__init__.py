"""What many seeds say: intervals, paired tests, censored counts, fronts, shares of variance, and the bar for ours."""
