"""What oncue needs to run on AWS."""
