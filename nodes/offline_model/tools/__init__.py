"""Know the bound tools: what they do, what they take, what they answered."""
