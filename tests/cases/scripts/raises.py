"""Raises where the release has the bug `script_error`, unless told not to."""

import os

import torch

if os.environ.get("HARNESS_TEST_AVOID") != "1":
    torch.fake.maybe("script_error", compiled=True)
print("no bug in", torch.__version__)
