"""What the dispatcher tells the owner by itself: alarms, the morning report, the heartbeat; and the digests of the chats."""
