"""What people and machines read about a running host: status, doctor, metrics, the alarm of a stale memory."""
