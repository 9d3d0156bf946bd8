"""Random robots and attacks of any duration, see docs/how-to/campaigns.md."""
