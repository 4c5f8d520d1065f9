"""What came with a message as a file, made into something that Claude can answer: pictures it sees, sound that was transcribed."""
