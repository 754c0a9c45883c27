"""Everything long-running: watcher, timetable, service manager notification, and the daemon that ties them together."""
