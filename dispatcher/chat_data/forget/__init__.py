"""`hmem forget`: erase a chat, some turns or a text permanently from every layer of the day host. The night erases it from the archive.

request.py  the request, and what it covers
select.py   what Redis, the day store, the release and the archive have of it
journal.py  the work in progress, durable until the receipt is written
steps.py    the order of the layers
layers/     Redis and its files, tasks, the day store, Claude's files, our files, and the caches of running dispatchers
archive_part.py  the archive's part
scan.py     the byte scan
receipt.py  what would be removed, what was done, and what remains until the owner acts (stays.toml)
"""
