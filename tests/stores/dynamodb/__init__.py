"""What DynamoDB does and its emulators do not: wrappers of a boto3 client, and what they count."""
