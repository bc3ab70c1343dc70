"""Ends with exit code 3 where the release has the bug `script_exit`."""

import os

import torch

if os.environ.get("HARNESS_TEST_AVOID") != "1":
    torch.fake.maybe("script_exit", compiled=True)
