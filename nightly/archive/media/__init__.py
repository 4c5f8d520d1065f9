"""KEEP_MEDIA: the files of messages in the archive: brought, mirrored, erased, verified, exported."""
