"""What a WhatsApp export is made of: heads of messages, times and dates, and what in a text was not written by anybody."""
