"""`hmem init --night-host`: the nights of this installation on another host, reached over ssh; and its undoing."""
