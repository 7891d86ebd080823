"""Shadow mode: what foldline would have delivered of a turn, held against what another path says it sent."""
