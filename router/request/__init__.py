"""Values that all layers share: the request's context, trace, outcome, headers and routes."""
