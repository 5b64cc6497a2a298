"""Tests of src/mail."""
