"""The corridor: what happened is collected, settled and done by one worker per root.

Watcher, timetable and control socket only put work in; nothing here knows watchdog, the scheduler or a
socket.
"""
