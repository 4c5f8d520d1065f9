"""Who does the work of a night that is the same wherever it is done: this process, processes of this host, or a Dask cluster."""
