"""Random robots and attacks, for as long as one likes: see docs/how-to/campaigns.md."""
