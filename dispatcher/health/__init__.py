"""What people and machines can read about a running host: status, doctor, metrics, the alarm for stale memory."""
