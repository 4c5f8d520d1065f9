"""What came with a message as a file, made into something that Claude can answer: pictures it sees, sound that was transcribed."""


class NotRead(Exception):
    """A file of a message is not read; the text is a sentence for the sender."""
