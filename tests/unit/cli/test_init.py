"""`preflight init`: from options, from answers on a terminal, and never over a file."""

import io
from importlib import resources
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.inventory import load
from preflight.model.cluster import Product

ROOT = Path(__file__).parents[3]


class Terminal(io.StringIO):
    """Answers of a person, one a line."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return tmp_path


@pytest.mark.parametrize("product", Product)
def test_the_written_inventory_can_be_read(product: Product, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--hosts", "node[01-04]", "--product", product]) == 0
    out = capsys.readouterr().out.splitlines()
    cluster = load(place / "hosts.toml")
    assert [host.name for host in cluster.hosts] == ["node01", "node02", "node03", "node04"]
    assert cluster.product is product
    assert {len(host.devices) for host in cluster.hosts} == {0 if product is Product.CPU else 8}
    assert out[-1] == "next: preflight check --inventory hosts.toml"
    assert (place / "hosts.toml").read_text("utf-8").startswith("# Written by preflight init.")


def test_options_are_in_the_file(place: Path) -> None:
    words = (
        "--hosts gpu[1-2] --address 10.1.0.[11-12] --product nvidia --devices 4 --user ops --port 2222 --sudo --name x"
    )
    assert main(["init", *words.split(), "-o", "own.toml"]) == 0
    cluster = load(place / "own.toml")
    assert cluster.name == "x"
    assert [(host.address, len(host.devices)) for host in cluster.hosts] == [("10.1.0.11", 4), ("10.1.0.12", 4)]
    assert {(host.ssh.user, host.ssh.port, host.ssh.sudo) for host in cluster.hosts} == {("ops", 2222, True)}


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_a_file_is_never_overwritten(kind: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "hosts.toml"
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to("nowhere")
    assert main(["init", "--hosts", "a", "--product", "cpu"]) == 2
    said = capsys.readouterr().err
    assert said == "preflight: hosts.toml already exists. Choose another file with -o, since init overwrites none.\n"
    assert path.is_symlink() or path.read_text() == "mine"
    assert [entry.name for entry in place.iterdir()] == ["hosts.toml"]


def test_missing_values_are_asked_for_until_they_are_valid(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("910B\n\natlas-a2\nnode[1-\nnode[1-2]\n"))
    assert main(["init"]) == 0
    cluster = load(place / "hosts.toml")
    assert (cluster.product, len(cluster.hosts)) == (Product.ATLAS_A2, 2)
    asked = capsys.readouterr().err
    assert 'Ascend 910B is "atlas-a2".' in asked
    assert "the brackets do not match" in asked


def test_only_what_is_missing_is_asked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("cpu\n"))
    assert main(["init", "--hosts", "a,b"]) == 0
    assert load(place / "hosts.toml").product is Product.CPU


def test_the_end_of_answers_writes_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("cpu\n"))
    assert main(["init"]) == 2
    assert capsys.readouterr().err.endswith("preflight: no answer, so no inventory was written\n")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "init needs --hosts and --product, because there is no terminal to ask on"),
        ("--hosts a", "init needs --product, because"),
        ("--hosts a[1- --product cpu", "--hosts: the brackets do not match"),
        ("--hosts a[1-2] --address 10.0.0.1 --product cpu", "--address has 1 addresses for 2 hosts"),
        ("--hosts a,a --product cpu", "name a is used twice"),
        ("--hosts a --product cpu --port 99999", "ssh.port: should be at most 65535"),
        ("--hosts a --product cpu -o none/x.toml", "-o none/x.toml: cannot write in none"),
    ],
)
def test_wrong_options_write_nothing(words: str, says: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert list(place.iterdir()) == []


def test_the_example_of_the_package_is_that_of_the_repository(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = (ROOT / "inventory.example.toml").read_text("utf-8")
    packaged = resources.files("preflight.inventory").joinpath("example.toml").read_text("utf-8")
    assert packaged == example, "run: cp inventory.example.toml preflight/inventory/example.toml"
    assert main(["init", "--example"]) == 0
    assert capsys.readouterr().out == example
    assert list(place.iterdir()) == []
