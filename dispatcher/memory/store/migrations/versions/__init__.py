"""One file a revision; `dispatcher.memory.store.tables.REVISIONS` lists them in order."""
