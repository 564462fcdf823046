"""Be the oldest schema that can be upgraded; new files are made from the tables as they are defined.

Revision ID: 0004
"""

revision = "0004"
down_revision = None
