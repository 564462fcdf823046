"""Know English as far as the rules need it: words, synonyms, dates, courtesies, idioms."""
