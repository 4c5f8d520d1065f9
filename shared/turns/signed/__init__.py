"""What dispatcher and bot sign for each other: answers, answers that are still written, and questions about tools."""
