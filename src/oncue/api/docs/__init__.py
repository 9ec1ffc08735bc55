"""The description of the HTTP interface: OpenAPI and the page `/docs`."""
