# Run by the python3 on PATH, with the modules that are wanted as a JSON object of their
# distributions: prints what the interpreter is, and which of the modules it has.
import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # the working directory: an embedded interpreter has no such entry
import importlib.metadata
import importlib.util
import json
import os
import sysconfig


def version(distributions):
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""


def libraries():
    get = sysconfig.get_config_var
    name = "libpython%s.so" % get("LDVERSION")
    names = [name + ".1.0", name]
    if ".so" in (get("INSTSONAME") or ""):
        names.insert(0, get("INSTSONAME"))
    lib = get("LIBDIR") or ""
    for d in (lib, os.path.join(lib, get("MULTIARCH") or ""), os.path.join(sys.base_prefix, "lib")):
        for n in names:
            yield os.path.join(d, n)
    yield from names


def found(module):
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


wanted = json.loads(sys.argv[1])
print(json.dumps({
    "executable": sys.executable,
    "version": list(sys.version_info[:3]),
    "prefix": sys.prefix,
    "libraries": list(dict.fromkeys(libraries())),
    "packages": {m: version(d) for m, d in wanted.items() if found(m)},
}))
