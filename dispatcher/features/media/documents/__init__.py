"""Documents that people send: bytes in, text and the number of pages out, or a sentence why not."""
