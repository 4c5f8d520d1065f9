"""One file a revision; `dispatcher.store.tables.REVISIONS` lists them in order."""
