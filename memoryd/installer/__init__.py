"""The service of this machine: units for systemd, an agent for launchd, and their installation."""
