"""Reproducer corpus and bisection harness for torch.compile bugs."""
