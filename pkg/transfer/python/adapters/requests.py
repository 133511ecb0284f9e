"""What all adapters share: the blocks of requests, and the version of a library."""
import ctypes
from importlib import import_module
from importlib.metadata import packages_distributions
from importlib.metadata import version as version_of

requests = {}
made = 0


def prepare(at, blocks):
    """Makes the lists of a request and returns its number. The array at has three numbers per block:
    its address or offset here, its address or offset in the peer, and its bytes."""
    global made
    words = (ctypes.c_uint64 * (3 * blocks)).from_address(at)[:]
    made += 1
    requests[made] = (words[0::3], words[1::3], words[2::3])
    return made


def release(request):
    del requests[request]


def taken(request, first, end):
    """Returns three lists for the blocks first to end-1: places here, places in the peer, bytes."""
    return [of[first:end] for of in requests[request]]


def version(module):
    """Returns the version of the distribution of a module, or its own, or "unknown"."""
    names = packages_distributions().get(module, [])
    return version_of(names[0]) if names else getattr(import_module(module), "__version__", "unknown")
