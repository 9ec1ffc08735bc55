"""Cron against a second, slow implementation, around every change of the clocks."""
