"""Passes everywhere."""

import torch

assert torch.ones(3).sum().item() == 3.0
