"""What the command line may ask the probe for, and what it is told otherwise."""

from argparse import ArgumentTypeError

import pytest

from preflight.app.probing.probe import _refuse_other_backend
from preflight.cli.probe_options import _scopes, _sizes
from preflight.model.cluster import Product
from preflight.model.errors import UsageError


def test_sizes_are_those_of_the_inventory() -> None:
    assert _sizes("1M,8,64K,8") == (8, 64 << 10, 1 << 20)
    for text in ("7", "0", "12", "65G", "1T", "8,", "-8"):
        with pytest.raises(ArgumentTypeError, match="a multiple of 8 bytes up to 64G"):
            _sizes(text)


def test_scopes_are_named_in_the_order_of_help() -> None:
    with pytest.raises(ArgumentTypeError, match="is not a list of scopes: device, host, pair, rail, all"):
        _scopes("node")


@pytest.mark.parametrize(
    ("product", "backend", "does"),
    [(Product.ATLAS_A2, "nccl", "Use hccl or gloo"), (Product.NVIDIA, "hccl", "Use nccl or gloo"),
     (Product.CPU, "hccl", "Use gloo")],
)  # fmt: skip
def test_a_backend_of_other_devices_is_refused_with_those_that_run(product: Product, backend: str, does: str) -> None:
    with pytest.raises(UsageError, match=does):
        _refuse_other_backend(backend, product)
