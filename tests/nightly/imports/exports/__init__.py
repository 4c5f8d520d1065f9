"""What people bring from other programs: each format from its documentation, and what a hostile one is met with."""
