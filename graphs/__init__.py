"""Build and compile the state graphs, read top-down: state, nodes, edges, compile."""
