"""What people and machines can read about a running host: status, doctor, the alarm for stale memory."""
