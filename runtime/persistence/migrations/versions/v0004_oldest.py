"""The oldest schema that can be upgraded; new files are created from the table definitions.

Revision ID: 0004
"""

revision = "0004"
down_revision = None
