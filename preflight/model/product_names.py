"""Names of chips and servers as people type them, and the inventory's product of each. Pure.

npu-smi spells some names differently: its "910B" without a digit is a chip of Atlas A1. See `facts.npu_smi.product_of`.
"""

import difflib
import json
import re

from preflight.model.cluster import Product

_LONGEST = 60  # characters of a wrong name that a sentence repeats

# Beginning of the name, in small letters and digits, without the maker's name; the vendor's spelling ({} is the matched
# text in capitals); its product, None if preflight does not support it. The first match counts.
_NAMES: tuple[tuple[str, str, Product | None], ...] = (
    (r"310[pb]?|610|950", "Ascend {}", None),
    (r"200i|200dk|300[iv](?!a2)|350|500(?!0)", "Atlas {}", None),
    (r"(800)?30[01]0", "Atlas 800 (model 3000 or 3010)", None),
    (r"cloudmatrix|matrix384", "CloudMatrix", Product.ATLAS_A3),
    (r"(900|9000)?(a3)?super(pod|node)", "Atlas 900 A3 SuperPoD", Product.ATLAS_A3),
    (r"910_?93", "Ascend 910_93", Product.ATLAS_A3),
    (r"910c", "Ascend 910C", Product.ATLAS_A3),
    (r"(900|9000|800[ti])a3", "Atlas {}", Product.ATLAS_A3),
    (r"(800)?a3(?!0)", "Atlas A3", Product.ATLAS_A3),
    (r"910b([1-4]c?)?", "Ascend {}", Product.ATLAS_A2),
    (r"(900|800[ti]|200tb?|300[ti])a2|200tbox16", "Atlas {}", Product.ATLAS_A2),
    (r"(800)?a2(?!0)", "Atlas A2", Product.ATLAS_A2),
    (r"910(a|pro[ab]?|premium[ab]?)?(?![0-9a-z])", "Ascend {}", Product.ATLAS_A1),
    (r"(800t?|900)(model|pod)?(9000|9010)?(?![0-9])|90[01]0", "Atlas 800 (model 9000)", Product.ATLAS_A1),
    (r"(800)?a1(?![0-9])", "Atlas A1", Product.ATLAS_A1),
    (r"(g?[bh][1-3]00|a[18]00|[hb]800|h20|a[1346]0|a16|[vp]100|[lt]4|l40s?)(?![0-9])", "NVIDIA {}", Product.NVIDIA),
    (r"nvidia|geforce|tesla|quadro|rtx|[dh]gx|cuda|nccl|gpus?(?![a-z])", "a server with NVIDIA GPUs", Product.NVIDIA),
    (r"cpu|x86|amd64|arm64|aarch64|kunpeng|gloo|none$", "a server without accelerators", Product.CPU),
)
_MAKERS = re.compile(r"^(\d{1,2}x|huawei|ascend|atlas|npu|nvidia(?=.)|model|server)+")
_ASCEND = 'Ascend 910A is "atlas-a1", 910B is "atlas-a2" and 910C is "atlas-a3".'
_SPACED = ((r"(?<=\d)(?=A[123])|(?<=[TIB])(?=A[123])|(?<=A[23])(?=BOX)|(?<=\d)(?=PRO|PREMIUM)", " "),)


def known_as(text: str) -> tuple[str, Product | None] | None:
    """Return the vendor's name for `text` and its product, or None for a name that is not in the table.

    The product is None if preflight does not support it. Case and separators do not count.
    """
    name = re.sub(r"[^a-z0-9]", "", text.lower())
    name = _MAKERS.sub("", name) or name
    for pattern, spelled, product in _NAMES:
        if match := re.match(pattern, name):
            return spelled.format(_spaced(match[0].upper())), product
    return None


def _spaced(name: str) -> str:
    for place, blank in _SPACED:
        name = re.sub(place, blank, name)
    return name.replace("PRO", "Pro").replace("PREMIUM", "Premium")


def not_known(text: str) -> str:
    """Return the sentence about an unknown product, with a suggestion."""
    shown = json.dumps(text[:_LONGEST], ensure_ascii=False)
    return f"unknown product {shown}. {_suggestion(text)}"


def _suggestion(text: str) -> str:
    products = ", ".join(Product)
    spelled = re.sub(r"[\s_]+", "-", text.strip().lower())
    if spelled in tuple(Product):
        return f'Write "{spelled}".'
    if known := known_as(text):
        name, product = known
        return f'{name} is "{product}".' if product else f"{name} is not supported. The products are {products}."
    if re.fullmatch(r"(huawei|ascend|atlas|npus?)+", re.sub(r"[^a-z]", "", spelled)):
        return _ASCEND
    close = difflib.get_close_matches(spelled, list(Product), 1, 0.8)
    meant = f'Did you mean "{close[0]}"? ' if close else ""
    return f"{meant}The products are {products}."
