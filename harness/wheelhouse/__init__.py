"""Targets for a host without network: wheels, slimmed if wished, in parts that can be carried.

``build`` runs where an index can be reached: it resolves what a torch release needs, downloads it,
verifies hashes, takes away the machine code of GPUs that the far host does not have, and cuts the
result into parts under one manifest. ``unpack`` runs on the far host, on Python 3.12 or newer with
the standard library alone: it verifies the parts and joins them into a folder of wheels that
``--channel wheelhouse:DIR`` installs from. ``hostlibs`` lends a fresh environment the CUDA
libraries that the far host has already.

``fatbin``: the GPU code inside an ELF file. ``slimwheel``: a wheel made smaller. ``resolve``: which
wheels. ``manifest``: what is written down about them.
"""
