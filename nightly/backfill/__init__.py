"""Turns that come from elsewhere than Redis: files of a history, or the whole archive once more."""
