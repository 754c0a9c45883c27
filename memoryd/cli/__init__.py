"""Floor 8: the command line. Client commands are made from the table in control/methods and only use the control
socket. Importing this package is cheap."""
