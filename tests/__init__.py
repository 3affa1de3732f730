"""The tests: a package only so that its name cannot mean another distribution's `tests`."""
