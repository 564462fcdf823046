"""Number the events of runs and threads, deliver them to listeners, store and replay them."""
