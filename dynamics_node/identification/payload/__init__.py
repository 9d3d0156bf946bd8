"""What a link carries: from recordings, and sample by sample."""
