"""Tests of projection."""
