"""What the README says of speed and memory, measured: `make bench` runs all of it."""
