"""Print a manifest for a Kubernetes job in which the pods test each other before the job starts.

  preflight gate manifest --kind job --name train --image IMAGE --replicas 4 \\
    --devices 8 --resource nvidia.com/gpu -- torchrun … > train.yaml
  preflight gate manifest --kind jobset … | kubectl apply -f -

The test runs in an init container. No host is contacted. Pods identify each other by a token. The
manifest does not contain the token. Its first lines have the command that creates the token.
"""

import argparse

from preflight.cli.options import product_name
from preflight.gate.manifest import Workload, WorkloadKind, text_of
from preflight.model.cluster import Product


def add_arguments(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument_group("job")
    job.add_argument(
        "--kind",
        choices=[kind.value for kind in WorkloadKind],
        default=WorkloadKind.JOB.value,
        help="kind of job (default: job)",
    )
    job.add_argument("--name", required=True, help="name of the job (required)")
    job.add_argument(
        "--image",
        required=True,
        help="image of the job; without --preflight-image, it must contain preflight (required)",
    )
    job.add_argument("--replicas", type=int, required=True, metavar="N", help="number of pods, one per node (required)")
    job.add_argument("--host-network", action="store_true", help="use the host network of the nodes")
    job.add_argument("job", nargs="*", metavar="-- COMMAND", help="command of the job (default: the image's command)")
    hardware = parser.add_argument_group("devices")
    hardware.add_argument(
        "--devices",
        type=int,
        required=True,
        metavar="M",
        help="number of devices per pod, with one rank each (required)",
    )
    hardware.add_argument(
        "--resource", default="", help="Kubernetes resource of the devices: huawei.com/Ascend910, nvidia.com/gpu, …"
    )
    products = [product.value for product in Product]
    hardware.add_argument("--product", type=product_name, choices=products, help="product, as in an inventory")
    container = parser.add_argument_group("init container")
    container.add_argument(
        "--preflight-image",
        default="",
        metavar="IMAGE",
        help="image of the init container (default: the job's image)",
    )
    container.add_argument(
        "--setup", default="", metavar="LINE", help="shell line to run first, such as source …/set_env.sh"
    )
    container.add_argument("--python", default="", help="Python interpreter that has torch, as in an inventory")


def run(args: argparse.Namespace) -> int:
    wanted = Workload(
        WorkloadKind(args.kind),
        args.name,
        args.image,
        args.replicas,
        args.devices,
        tuple(args.job),
        args.resource,
        Product(args.product) if args.product else None,
        args.preflight_image,
        args.setup,
        args.python,
        args.host_network,
    )
    print(text_of(wanted), end="")
    return 0
