"""W13: SQS and Lambda. Needs boto3 and two emulators: ministack for SQS, DynamoDB Local."""
