"""The programs that run on hosts: what stands in `preflight/remote/`, as the one text that is sent."""

from importlib.resources import files

# A program of several modules is a package of its own on the host, made from texts: nothing is written there, and a
# module that is not needed is not even compiled.
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


def source(name: str, *others: str) -> str:
    """The text of the program `name`: one file, or the modules of a folder, whose `main.main` is run; `others` are
    folders whose modules it imports, or single modules of them ("agent.network")."""
    place = files("preflight") / "remote"
    if not (place / name).is_dir():
        return (place / f"{name}.py").read_text(encoding="utf-8")
    texts = {}
    for other in (name, *others):
        package, _, only = other.partition(".")
        texts[package] = ""
        modules = (module.name for module in (place / package).iterdir() if module.name.endswith(".py"))
        for module in sorted(module for module in modules if not only or module == f"{only}.py"):
            texts[f"{package}.{module.removesuffix('.py')}"] = (place / package / module).read_text(encoding="utf-8")
    return _PACKAGE.format(name=name, texts=texts)
