"""Hashes of what public functions compute: every level with fused multiply-add gives the same bits."""
