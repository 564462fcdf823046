"""Number the events of runs and threads, hand them to listeners, store and replay them."""
