"""DynamoDB: what requests to it cost, and W11."""
