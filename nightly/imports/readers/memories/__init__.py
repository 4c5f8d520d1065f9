"""What other programs remember: facts and notes instead of a conversation. Each becomes a turn that says where it comes from."""
