"""Virtual time: a fleet of devices and links, real training in workers."""
