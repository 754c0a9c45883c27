"""The engine: events and commands are collected, settled and carried out by one worker per root.

Watcher, timetable and control socket only put work in; nothing here knows watchdog, the scheduler or a socket.
"""
