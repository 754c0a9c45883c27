"""What lives long: watcher, timetable, talk with the service manager, and the daemon that ties them up."""
