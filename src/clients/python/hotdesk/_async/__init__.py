"""The library with `async`. The build makes `hotdesk/_sync` of it (hatch_build.py)."""
