"""The Agent Client Protocol wire: what an agent writes, one JSON-RPC message in a line."""

from pipeline.normalize.acp.adapter import AcpAdapter

__all__ = ["AcpAdapter"]
