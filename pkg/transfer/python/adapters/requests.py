"""What every adapter has: the blocks of its requests, and the version of its library."""
import ctypes
from importlib.metadata import packages_distributions
from importlib.metadata import version as version_of

requests = {}
made = 0


def prepare(at, blocks):
    """Makes the lists of a request from an array of three numbers a block: its place here, its
    place in the peer, and its bytes. Returns the request's number."""
    global made
    words = (ctypes.c_uint64 * (3 * blocks)).from_address(at)[:]
    made += 1
    requests[made] = (words[0::3], words[1::3], words[2::3])
    return made


def release(request):
    del requests[request]


def taken(request, first, end):
    """The places here, the places in the peer, and the bytes of some blocks."""
    return [of[first:end] for of in requests[request]]


def version(module):
    """That of the distribution of a module."""
    names = packages_distributions().get(module, [])
    return version_of(names[0]) if names else "unknown"
