"""The transport: connections, patience, leases, news, and the sharing of partitions. The only part of workers that knows redis-py."""
