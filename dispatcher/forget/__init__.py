"""`hmem forget`: one chat, some turns or a text, out of every layer of the day host for good; the archive's part is the night's.

scope.py        what is asked, and what it covers
selecting.py    what is known of it, in Redis, store and release
journal.py      what is under way, durable until the receipt is there
carrying_out.py the order of the layers
tasks_layer.py  redis_layer.py  store_layer.py  claude_layer.py  files_layer.py  night_part.py
caches_layer.py what the dispatchers that run keep in memory
proof.py        the byte scan
receipt.py      what was done, and what stays until the owner acts
"""
