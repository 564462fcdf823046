"""Choose one of many operations that a structured output names, and fill its arguments from the user's words.

Operations of HTTP APIs differ from each other in what they take, less in their verbs: so each is filled first, and the
one that explains the words best is chosen.
"""
