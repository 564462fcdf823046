"""One file per schema version, oldest first; never change a released one."""
