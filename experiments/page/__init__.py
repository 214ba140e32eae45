"""The page that shows attention, live from a server on this machine."""
