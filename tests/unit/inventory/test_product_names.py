"""Products by the names that people type: whatever the case and separators, and wherever a product is asked for."""

import tomllib
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.inventory import InventoryError
from preflight.inventory.load import parse
from preflight.model.cluster import Product
from preflight.model.product_names import known_as, not_known

A1, A2, A3, NVIDIA, CPU = Product
EVERY = ", ".join(Product)


NAMES: dict[Product | None, str] = {
    A1: "910, 910A, 910 Pro, 910ProB, Ascend910, ascend-910a, Ascend 910 Premium A, Atlas 800 9000, A1, atlas_800, "
    "Atlas 800 (Model 9010), Atlas 900 PoD",
    A2: "910B, atlas-910b, 910b1, 910B4-1, 910 B2C, Ascend910B, huawei Ascend 910B3, Atlas-800T-A2, atlas 800i a2, A2, "
    "900 A2 PoD, Atlas 200T A2 Box16",
    A3: "910C, 910_93, Ascend910_9382, 800T A3, Atlas 900 A3 SuperPoD, A3, CloudMatrix384, super pod, "
    "super-pod, SUPERPOD",
    NVIDIA: "h100, A100-SXM4-80GB, H800, b200, GB200, 8xH100, NVIDIA L40S, t4, cuda, GPU, gpus, DGX, "
    "NVIDIA Tesla V100, a10, a30",
    CPU: "x86, x86_64, aarch64, CPU only",
    None: "310, 310P, Ascend 310P3, Ascend950PR, Atlas 950 SuperPoD, Atlas 300I Duo, Atlas 200I DK A2, Atlas 800 3000",
}


@pytest.mark.parametrize(
    ("name", "product"), [(name, product) for product, names in NAMES.items() for name in names.split(", ")]
)
def test_a_name_leads_to_its_product(name: str, product: Product | None) -> None:
    known = known_as(name)
    assert known
    assert known[1] is product


@pytest.mark.parametrize(
    "name", ["", "tpu", "mi300x", "910d", "atlas", "npu", "a4", "b", "gpudirect-storage-box", "\x1b[31m"]
)
def test_a_name_that_is_not_in_the_table_leads_nowhere(name: str) -> None:
    assert known_as(name) is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("atlas-910b", 'unknown product "atlas-910b". Ascend 910B is "atlas-a2".'),
        ("910b3", 'unknown product "910b3". Ascend 910B3 is "atlas-a2".'),
        ("Atlas-800T-A2", 'unknown product "Atlas-800T-A2". Atlas 800T A2 is "atlas-a2".'),
        ("h100", 'unknown product "h100". NVIDIA H100 is "nvidia".'),
        ("Atlas A2", 'unknown product "Atlas A2". Write "atlas-a2".'),
        ("310P", f'unknown product "310P". Ascend 310P is not supported. The products are {EVERY}.'),
        ("nvida", f'unknown product "nvida". Did you mean "nvidia"? The products are {EVERY}.'),
        ("tpu", f'unknown product "tpu". The products are {EVERY}.'),
        ("npu", 'unknown product "npu". Ascend 910A is "atlas-a1", 910B is "atlas-a2" and 910C is "atlas-a3".'),
    ],
)
def test_a_product_that_is_none_is_told_in_one_sentence_everywhere(
    name: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not_known(name) == sentence
    with pytest.raises(InventoryError, match="1 error in the inventory") as raised:
        parse(f'[cluster]\nname = "c"\nproduct = "{name}"\n[[hosts]]\nname = "n1"\n', Path("hosts.toml"))
    assert str(raised.value).endswith(f"hosts.toml:3: cluster.product: {sentence}")
    (tmp_path / "list").write_text("node01\n")
    manifest = ["gate", "manifest", "--name", "a", "--image", "i", "--replicas", "2", "--devices", "8"]
    for command in (["inventory", "import", str(tmp_path / "list")], ["exec"], manifest):
        with pytest.raises(SystemExit):
            main([*command, "--product", name])
        assert f"argument --product: {sentence}" in capsys.readouterr().err
    assert main(["lab", "up", "--product", name, "--dir", str(tmp_path / "lab")]) == 2
    assert f"--product: {sentence}" in capsys.readouterr().err


def test_the_sentence_holds_no_control_character_and_ends() -> None:
    text = not_known("\x1b[31m" + "9" * 5000)
    assert text.isprintable()
    assert len(text) < 200
    assert tomllib.loads(f"a = {text.split(' ')[2].rstrip('.')}")["a"].startswith("\x1b[31m999")
