"""What runs inside a target's environment: standard library and torch alone, Python 3.8 or newer.

``__main__`` is started by path, not as a module, so that nothing of the harness's own environment
can be imported by accident. ``serve`` owns attempts and their limits, ``processes`` ends what they
start; ``attempt`` runs one job and writes what it saw; ``repro`` runs models; ``compare`` describes
and compares outputs; ``failure`` reads exceptions; ``timing`` times.
"""
