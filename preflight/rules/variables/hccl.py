"""Allowed values of the variables of HCCL, torch_npu and CANN. Pure.

Each variable has a line, as the HCCL user guide and torch_npu's documents have it."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from preflight.model.cluster import Product
from preflight.model.ip import is_address
from preflight.model.outcome import Outcome
from preflight.model.ports import PortSet

_NPU = frozenset(product for product in Product if product.is_npu)
_A1 = frozenset({Product.ATLAS_A1})
_NEWER = _NPU - _A1
_A2, _A3 = frozenset({Product.ATLAS_A2}), frozenset({Product.ATLAS_A3})
_MOST = 2147483647
_DFS = {"connection_fault_detection_time": "seconds", "cluster_heartbeat": "on, off", "stuck_detection": "on, off"}


@dataclass(frozen=True)
class VariableRule:
    """The allowed values of one variable.

    `wants`: the allowed values, in words. `allows`: whether a value is allowed. `plain`: the one spelling of an allowed
    value that has several. `default`: the meaning of an unset variable. `unequal`: the outcome if hosts differ, None if
    they may."""

    wants: str
    allows: Callable[[str], bool]
    plain: Callable[[str], str] = str
    default: str = ""
    unequal: Outcome | None = None
    advised: int = 0  # largest number that the vendor advises, though larger ones are allowed; 0: any
    products: frozenset[Product] = _NPU

    def meaning(self, value: str | None) -> str:
        """Return the meaning of a value (None: not set) to HCCL, for comparison; a value that is not allowed is
        unchanged."""
        value = self.default if value is None else value
        return self.plain(value) if self.allows(value) else value


def _number(low: int, high: int, what: str = "a number", *, step: int = 1) -> VariableRule:
    wants = (
        f"{what} from {low}"
        + ("" if high == _MOST else f" to {high}")
        + (f" that is a multiple of {step}" * (step > 1))
    )

    def allows(value: str) -> bool:
        return bool(re.fullmatch("[0-9]{1,12}", value)) and low <= int(value) <= high and int(value) % step == 0

    return VariableRule(wants, allows, lambda value: str(int(value)))


def _amount(low: int, high: int, unit: str) -> VariableRule:
    wants = f"{low} {unit} or more" if high == _MOST else f"{low} to {high} {unit}"
    return replace(_number(low, high), wants=wants)


def _word(*words: str) -> VariableRule:
    """Return the rule of a variable that takes one of these words in any case."""
    return VariableRule(" or ".join(words), lambda value: value.lower() in [word.lower() for word in words], str.lower)


def _ports(value: str) -> bool:
    try:
        return value == "auto" or (bool(PortSet.parse(value)) and 0 not in PortSet.parse(value))
    except ValueError:
        return False


def _plain_ports(value: str) -> str:
    return value if value == "auto" else str(PortSet.parse(value))


def _retry(value: str) -> bool:
    return bool(re.fullmatch(r"L[0-2]:[01](, ?L[0-2]:[01])*", value))


def _plain_retry(value: str) -> str:
    """Return the value of every level; a level that is not listed is off."""
    levels = dict(item.strip().split(":") for item in value.split(","))
    return ",".join(f"{level}:{levels.get(level, '0')}" for level in ("L0", "L1", "L2"))


def _dfs(value: str) -> bool:
    """Return whether all known names of `name:value,…` have an allowed value."""
    for item in value.split(","):
        name, colon, value_of_name = (part.strip() for part in item.partition(":"))
        wanted = _DFS.get(name, "")
        if not colon or (wanted == "on, off" and value_of_name not in wanted.split(", ")):
            return False
        if wanted == "seconds" and not (value_of_name == "0" or _number(20, 7200).allows(value_of_name)):
            return False
    return True


_SWITCH = _word("0", "1")
_PORTS = VariableRule("ports such as 61000-61050,61100, or auto", _ports, _plain_ports, products=_NEWER)
_PATH = VariableRule("a path", bool)
_ANY = VariableRule("text", bool)


def _fails(rule: VariableRule, default: str = "", products: frozenset[Product] | None = None) -> VariableRule:
    """Return the rule as one on which hosts must agree, or they do not find each other or run different algorithms."""
    return replace(rule, default=default, unequal=Outcome.FAIL, products=products or rule.products)


def _warns(rule: VariableRule, default: str = "", products: frozenset[Product] | None = None) -> VariableRule:
    """Return the rule as one on which hosts should agree, or they time out at different times or are only slower."""
    return replace(rule, default=default, unequal=Outcome.WARN, products=products or rule.products)


RULES: dict[str, tuple[VariableRule, ...]] = {
    "HCCL_IF_IP": (VariableRule("an address of a host NIC", is_address),),
    "HCCL_SOCKET_IFNAME": (_ANY,),
    "HCCL_SOCKET_FAMILY": (_fails(_word("AF_INET", "AF_INET6"), "AF_INET"),),
    "HCCL_IF_BASE_PORT": (_warns(_number(1024, 65520, "a port"), "60000"),),
    "HCCL_HOST_SOCKET_PORT_RANGE": (_warns(_PORTS),),
    "HCCL_NPU_SOCKET_PORT_RANGE": (_fails(_PORTS),),
    "HCCL_CONNECT_TIMEOUT": (_warns(_amount(120, 7200, "seconds"), "120"),),
    "HCCL_EXEC_TIMEOUT": (
        _warns(_amount(1, 17340, "seconds"), "1836", _A1),
        _warns(_amount(0, _MOST, "seconds"), "1836", _NEWER),
    ),
    "HCCL_EVENT_TIMEOUT": (_warns(_amount(0, _MOST, "seconds"), "1868"),),
    "HCCL_WHITELIST_DISABLE": (_fails(_SWITCH, "1"),),
    "HCCL_WHITELIST_FILE": (_PATH,),
    "HCCL_INTRA_PCIE_ENABLE": (_fails(_SWITCH, "1"),),
    "HCCL_INTRA_ROCE_ENABLE": (_fails(_SWITCH, "0"),),
    "HCCL_INTER_HCCS_DISABLE": (_fails(_word("FALSE", "TRUE"), "FALSE", _A3),),
    "HCCL_LOGIC_SUPERPOD_ID": (VariableRule("127 characters or fewer", lambda value: len(value) < 128, products=_A3),),
    "HCCL_RDMA_TC": (_fails(_number(0, 255, step=4), "132"),),
    "HCCL_RDMA_SL": (_fails(_number(0, 7), "4"),),
    "HCCL_RDMA_TIMEOUT": (_warns(_number(5, 24), "20", _A1), _warns(_number(5, 20), "20", _NEWER)),
    "HCCL_RDMA_RETRY_CNT": (_warns(_number(1, 7), "7"),),
    "HCCL_RDMA_QPS_PER_CONNECTION": (replace(_fails(_number(1, 32), "1", _NEWER), advised=8),),
    "HCCL_RDMA_QP_PORT_CONFIG_PATH": (replace(_PATH, products=_NEWER),),
    "HCCL_BUFFSIZE": (_fails(_amount(1, _MOST, "MB"), "200"),),
    "HCCL_ALGO": (_fails(_ANY),),
    "HCCL_OP_EXPANSION_MODE": (_fails(_ANY, "", _A1), _fails(_ANY, "HOST", _A2), _fails(_ANY, "AI_CPU", _A3)),
    "HCCL_DETERMINISTIC": (_fails(_word("false", "true", "strict"), "false"),),
    "HCCL_OP_RETRY_ENABLE": (_fails(VariableRule("a list such as L1:0,L2:1", _retry, _plain_retry), "L1:0,L2:0", _A3),),
    "HCCL_OP_RETRY_PARAMS": (replace(_ANY, products=_A3),),
    "HCCL_DFS_CONFIG": (
        VariableRule(
            "a list such as cluster_heartbeat:on,connection_fault_detection_time:20 (0 or 20 to 7200 s)", _dfs
        ),
    ),
    "HCCL_ENTRY_LOG_ENABLE": (_SWITCH,),
    "HCCL_DIAGNOSE_ENABLE": (_SWITCH,),
    "HCCL_DEBUG_CONFIG": (_ANY,),
    "HCCL_TEST_USE_DEVS": (_ANY,),
    "HCCL_ASYNC_ERROR_HANDLING": (_number(0, 3),),  # torch_npu's names before it prefixed TORCH_
    "HCCL_BLOCKING_WAIT": (_SWITCH,),
    "HCCL_DESYNC_DEBUG": (_SWITCH,),
    "TORCH_HCCL_ASYNC_ERROR_HANDLING": (_warns(_number(0, 3), "1"),),
    "TORCH_HCCL_BLOCKING_WAIT": (_warns(_SWITCH, "0"),),
    "TORCH_HCCL_DESYNC_DEBUG": (_warns(_SWITCH, "0"),),
    "TORCH_DEVICE_BACKEND_AUTOLOAD": (_SWITCH,),
    "P2P_HCCL_BUFFSIZE": (_fails(_amount(0, _MOST, "MB"), "20"),),
    "NPU_ASD_ENABLE": (_number(0, 3),),
    "ASCEND_GLOBAL_LOG_LEVEL": (_number(0, 4),),
    "ASCEND_SLOG_PRINT_TO_STDOUT": (_SWITCH,),
    "ASCEND_GLOBAL_EVENT_ENABLE": (_SWITCH,),
}


def rule(name: str, product: Product) -> VariableRule | None:
    """Return the rule of a variable on a product; None if it has no effect there."""
    return next((candidate for candidate in RULES[name] if product in candidate.products), None)


def meant(name: str) -> str | None:
    """Return the variable of HCCL for which an unknown name is probably a typing error."""
    if name in RULES or not name.startswith(("HCCL_", "TORCH_HCCL_", "P2P_HCCL_")):
        return None
    return next(iter(difflib.get_close_matches(name, RULES, 1, 0.85)), None)
