"""The upstream side: connections to engines, health checks, load balancing and failover."""
