"""Floor 8: the command line. Client commands are made from the table in control/methods and talk to
the control socket only; importing this package costs nothing."""
