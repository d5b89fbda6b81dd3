"""Everything that talks to engines, and the stand-in that plays one."""
