"""Everything durable in Redis: keys, records and atomic operations.

Payloads (events, frames, blocks, bodies) are opaque text here. Every operation is a function that returns a `Call`; whoever holds a client
runs it, and runs it again when its answer was lost. The ledger schedules nothing, reads no clock but the server's, and draws no chance.
"""
