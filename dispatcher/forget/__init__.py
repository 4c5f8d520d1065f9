"""`hmem forget`: one chat, some turns or a text, out of every layer of the day host for good; the archive's part is the night's.

request.py  what is asked, and what it covers
select.py   what is known of it, in Redis, store, release and archive
preview.py  what would go, before anything does
journal.py  what is under way, durable until the receipt is there
steps.py    the order of the layers
layers/     Redis and its files, tasks, the store, Claude's files, ours, and what running dispatchers keep in memory
night.py    the archive's part
scan.py     the byte scan; places.py: where it looks
receipt.py  what was done, and what stays until the owner acts
"""
