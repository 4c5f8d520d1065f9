"""The records of a conversation and the forms in which they are shown or indexed."""
