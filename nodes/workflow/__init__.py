"""Hold the nodes of the workflow graph: retrieve, select, execute, format, and the one node for their failures."""
