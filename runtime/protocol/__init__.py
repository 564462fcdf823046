"""Tell what happens on a thread in the newer protocol: numbered events, kept, replayed and filtered."""
