"""The computing services: requests, replies and their process."""
