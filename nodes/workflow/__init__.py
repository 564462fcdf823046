"""The nodes of the workflow graph: retrieve, select, execute, format, and one node for all their failures."""
