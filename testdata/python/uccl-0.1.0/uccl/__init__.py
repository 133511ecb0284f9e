"""A make-believe UCCL of da914a20; see p2p.py."""
from . import p2p

__version__ = "0.1.0"
