"""ledger.lua."""
