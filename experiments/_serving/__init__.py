"""HTTP servers: connections and the queue of requests, which the live page shares, and the service of a model."""
