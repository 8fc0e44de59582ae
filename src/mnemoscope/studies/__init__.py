"""Published tables and figures, one folder per source; the framework is `mnemoscope.replication`."""
