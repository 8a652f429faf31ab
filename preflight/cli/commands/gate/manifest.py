"""Print the manifest of a Kubernetes job whose pods prove each other, in an init container, before it begins.

  preflight gate manifest --kind job --name train --image IMAGE --replicas 4 \\
    --devices 8 --resource nvidia.com/gpu -- torchrun … > train.yaml
  preflight gate manifest --kind jobset … | kubectl apply -f -

Nothing is contacted. The token by which pods know each other is not in it; its head says how that is made.
"""

import argparse

from preflight.cli.options import product_name
from preflight.gate.manifest import Workload, WorkloadKind, text_of
from preflight.model.cluster import Product


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=[kind.value for kind in WorkloadKind], default=WorkloadKind.JOB.value)
    parser.add_argument("--name", required=True, help="of the job")
    parser.add_argument("--image", required=True, help="of the job; it has preflight, unless --preflight-image has")
    parser.add_argument("--replicas", type=int, required=True, metavar="N", help="pods, one a node")
    parser.add_argument("--devices", type=int, required=True, metavar="M", help="of each pod: one rank each")
    parser.add_argument(
        "--resource", default="", help="what the devices are to Kubernetes: huawei.com/Ascend910, nvidia.com/gpu, …"
    )
    products = [product.value for product in Product]
    parser.add_argument("--product", type=product_name, choices=products, help="as in an inventory")
    parser.add_argument("--preflight-image", default="", metavar="IMAGE", help="of the init container")
    parser.add_argument("--setup", default="", metavar="LINE", help="as in an inventory: source …/set_env.sh")
    parser.add_argument("--python", default="", help="that has torch, as in an inventory")
    parser.add_argument("--host-network", action="store_true", help="pods use the network of their nodes")
    parser.add_argument("job", nargs="*", metavar="-- COMMAND", help="the job's, instead of the image's")


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
