"""The computing services: requests, replies, and the process that answers them."""
