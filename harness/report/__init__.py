"""Tables, charts, the claims ledger, status and the page, all made from judged rows.

``publish`` is the one entry for the whole; ``tables``, ``claims``, ``status`` and ``expectations``
are pure and of use by themselves.
"""

from harness.report.publish import Published, publish

__all__ = ["Published", "publish"]
