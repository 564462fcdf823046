"""Show how Toolweave is used with services of your own."""
