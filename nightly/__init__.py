"""The night: raw turns in, an archived and searchable release out, then exactly what was archived is flushed."""
