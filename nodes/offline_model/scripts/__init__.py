"""Write the script of a video from an article by rules: its own sentences, chosen; and fetch the page before (A-04)."""
