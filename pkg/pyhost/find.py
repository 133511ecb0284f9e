# Run by python3 on PATH with two JSON arguments: an object from modules to their distributions, and
# a list of modules whose sources to read. Prints a description of the interpreter, the modules that
# it has, and the classes that their sources define.
import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # the working directory: an embedded interpreter has no such entry
import ast
import importlib.machinery
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
    """Returns the import spec of a module, or None if it is missing. Imports no parent package."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for name in inner:
        if spec is not None:
            spec = importlib.machinery.PathFinder.find_spec(name, spec.submodule_search_locations or [])
    return spec


def sources(spec):
    for top in spec.submodule_search_locations or ():
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, n) for n in names if n.endswith(".py"))
    if spec.submodule_search_locations is None:
        yield spec.origin


def parsed(path):
    try:
        with open(path, "rb") as f:
            return ast.parse(f.read())
    except (OSError, SyntaxError, ValueError, RecursionError):  # not valid source for this Python
        return ast.Module([], [])


def classes(module):
    """Returns the classes of a module, with the parameters of their __init__."""
    defined = {}
    for path in sources(found(module)):
        for c in ast.walk(parsed(path)):
            if isinstance(c, ast.ClassDef):
                parameters = defined.setdefault(c.name, [])
                for f in c.body:
                    if isinstance(f, ast.FunctionDef) and f.name == "__init__":
                        parameters += [a.arg for a in f.args.posonlyargs + f.args.args + f.args.kwonlyargs]
    return defined


wanted, read = json.loads(sys.argv[1]), json.loads(sys.argv[2])
print(json.dumps({
    "executable": sys.executable,
    "version": list(sys.version_info[:3]),
    "prefix": sys.prefix,
    "path": sys.path,
    "libraries": list(dict.fromkeys(libraries())),
    "packages": {m: version(d) for m, d in wanted.items() if found(m)},
    "classes": {m: classes(m) for m in read if found(m)},
}))
