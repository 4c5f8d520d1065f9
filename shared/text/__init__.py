"""Words, languages, times and formats: functions of text that know no record."""
