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


def source(name: str) -> str:
    """The text of the program `name`: one file, or the modules of a folder, whose `main.main` is run."""
    place = files("preflight") / "remote" / name
    if not place.is_dir():
        return (files("preflight") / "remote" / f"{name}.py").read_text(encoding="utf-8")
    modules = sorted(module.name.removesuffix(".py") for module in place.iterdir() if module.name.endswith(".py"))
    texts = {name: "", **{f"{name}.{module}": (place / f"{module}.py").read_text("utf-8") for module in modules}}
    return _PACKAGE.format(name=name, texts=texts)
