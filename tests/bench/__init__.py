"""What the router costs, as ratios against something run beside it. Run by hand; nothing here is a test."""
