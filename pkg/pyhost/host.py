"""The module of pyhost in its interpreter: describes exceptions and the interpreter."""
import json
import os
import sys
import traceback

sys.stdout = sys.stderr  # nothing reads a rank's standard output


def describe(kind, value, trace):
    """Prints the traceback to the log, and returns type, message and place on one line each."""
    traceback.print_exception(kind, value, trace)
    sys.stderr.flush()
    place = ""
    frames = traceback.extract_tb(trace)
    if frames:
        place = "%s:%d" % (os.path.basename(frames[-1].filename), frames[-1].lineno)
    return "\n".join((kind.__name__, " ".join(str(value).split()), place))


def about(_):
    return json.dumps({"prefix": sys.prefix, "version": list(sys.version_info[:3])})


def flush(_):
    sys.stdout.flush()
    sys.stderr.flush()
