"""The second copy by day: a journal of everything that only Redis and the day store have, and the way back from it (docs/second-copy.md).

place.py        where the journal is, and its way to another host and back
day_journal.py  its lines are appended in groups, and it is rewritten without what has gone
look.py         what one look at Redis shows, and which entries follow
follow.py       the loop: looks, entries, flushed turns, tombstones, the mark in Redis
put_back.py     what Redis lacks goes back
store_copy.py   the day store: base copies, and the way back
service.py      all of it as the dispatcher uses it
restore.py      `hmem restore --day`: all of it on an empty host
report.py       which second copy there is, and how far behind it is
replicas.py     the other way: WAIT for replicas of Redis
"""
