"""Everything that talks to engines, and the mock engine that plays one."""
