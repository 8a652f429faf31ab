"""Source texts of the programs that run on hosts (`preflight/remote/`)."""

import json
from collections.abc import Mapping
from importlib.resources import files

# A program of several modules becomes a package on the host, made from texts in memory.
# Nothing is written there, and a module that is not imported is not compiled.
_PACKAGE = """\
import sys
from importlib.machinery import ModuleSpec
TEXTS = {texts!r}
class Sent:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package="." not in name) if name in TEXTS else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(TEXTS[module.__name__], module.__name__ + ".py", "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
from {name}.main import main
main()
"""


def front() -> str:
    """Return the shell script that schedulers start in the place of the gate's program."""
    return (files("preflight") / "remote" / "gate_front.sh").read_text(encoding="utf-8")


def source(name: str, *imported: str, shared: Mapping[str, object] | None = None) -> str:
    """Return the text of the program `name`: a file, or the modules of a folder with a `main.main` to run.

    `imported` are folders with modules that it imports, or single modules of them ("agent.network"). `shared` becomes
    REQUEST of the folder's module `shared`, so that the text holds what all hosts are asked alike.
    """
    folder = files("preflight") / "remote"
    if not (folder / name).is_dir():
        return (folder / f"{name}.py").read_text(encoding="utf-8")
    texts = {}
    for part in (name, *imported):
        package, _, only = part.partition(".")
        texts[package] = ""
        modules = (module.name for module in (folder / package).iterdir() if module.name.endswith(".py"))
        for module in sorted(module for module in modules if not only or module == f"{only}.py"):
            texts[f"{package}.{module.removesuffix('.py')}"] = (folder / package / module).read_text(encoding="utf-8")
    if shared is not None:
        texts[f"{name}.shared"] = f"REQUEST = {json.loads(json.dumps(shared))!r}\n"
    return _PACKAGE.format(name=name, texts=texts)
