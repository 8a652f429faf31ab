"""Meanings of Xids and their remedies: NVIDIA's catalogue of 2025, with its immediate actions as classes.

If the catalogue refers to a flow chart, the class is that of AWS's health check of 2026. Codes that NVIDIA does not use
are left out.
"""

from typing import Literal

Action = Literal[
    "nothing",  # for information, or a consequence of another Xid
    "restart the job",
    "reset the GPU",
    "reboot the host",
    "check the hardware",  # power cables, seat of the board
    "update driver or firmware",
    "read its text",  # the message of Xid 154 names the action
    "watch the NVLinks",  # NVLink 5: the message says whether it was fatal
    "ask the vendor",
    "unknown",
]

_XIDS: tuple[tuple[Action, str, tuple[int, ...]], ...] = (
    ("restart the job", "the GPU stopped working on a channel that timed out", (8,)),
    ("restart the job", "a program sent commands that are not valid for the GPU", (11, 25, 32, 69)),
    ("restart the job", "a kernel failed on the GPU, usually because of an address out of bounds", (13,)),
    ("restart the job", "a program accessed GPU memory that it does not own", (31,)),
    ("nothing", "the driver's firmware met an unknown method", (37,)),
    ("nothing", "the firmware of the graphics engine took too long", (38,)),
    ("restart the job", "a copy engine failed", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))),
    ("nothing", "a program's channel was stopped after its own error", (43,)),
    ("nothing", "the graphics engine failed while switching between programs", (44,)),
    ("nothing", "channels were removed because of an earlier error, see the Xid before it", (45,)),
    ("reset the GPU", "the GPU stopped working and timed out", (46,)),
    ("reset the GPU", "memory errors that could not be corrected", (48,)),
    ("check the hardware", "the board has no auxiliary power", (54,)),
    ("restart the job", "the security or video processor failed", (60,)),
    ("reset the GPU", "the GPU's own controller halted", (62,)),
    ("nothing", "a bad row or page of memory will be replaced at the next reset", (63,)),
    ("reset the GPU", "a bad row or page of memory could not be replaced (A100 without MIG: reboot the host)", (64,)),
    ("nothing", "the driver accessed a register without permission", (66, 67)),
    ("restart the job", "a video decoder failed", (68, 83, 84, 88, 89, 96, 97, 98)),
    ("reset the GPU", "an NVLink failed", (74,)),
    ("update driver or firmware", "a virtual GPU did not start", (78,)),
    ("reboot the host", "the GPU fell off the PCIe bus", (79,)),
    ("restart the job", "commands arrived damaged at the GPU", (80,)),
    ("restart the job", "an image decoder failed", (82, 99, 100, 101, 102, 103, 104, 105)),
    ("restart the job", "the optical flow engine failed", (86, 139)),
    ("nothing", "many memory errors were corrected", (92,)),
    ("nothing", "the GPU's configuration memory was written more often than it should be", (93,)),
    (
        "restart the job",
        "a memory error was contained to the programs that it hit (A100 without MIG: reboot the host)",
        (94,),
    ),
    ("reset the GPU", "a memory error may have reached other programs (A100 without MIG: reboot the host)", (95,)),
    ("nothing", "a management bus test message", (106, 107)),
    ("reset the GPU", "the GPU did not switch between programs in time", (109,)),
    ("reset the GPU", "the GPU's security engine reports a fault", (110,)),
    ("reset the GPU", "the GPU's system processor (GSP) did not answer the driver", (119,)),
    ("reset the GPU", "the GPU's system processor (GSP) failed", (120,)),
    ("nothing", "an error on the link between processor and GPU was corrected", (121,)),
    ("reset the GPU", "an NVLink did not come up", (136,)),
    ("nothing", "an NVLink request was not allowed", (137,)),
    ("reset the GPU", "a memory error was noticed late and could not be corrected", (140,)),
    ("nothing", "a CUDA fast path error", (141,)),
    ("ask the vendor", "a video encoder failed", (142,)),
    ("reset the GPU", "the GPU did not start", (143,)),
    ("watch the NVLinks", "an NVLink 5 error", (144, 145, 146, 147, 148, 149, 150)),
    ("reboot the host", "the confidential computing keys could not be changed", (151,)),
    ("nothing", "a deep learning accelerator error", (152, 153)),
    ("read its text", "the driver reports what the GPU needs after another Xid", (154,)),
    ("reset the GPU", "an NVLink was found faulty by software", (155,)),
    ("reset the GPU", "a part of the GPU was taken out of use, from the next reset on", (156,)),
    ("nothing", "a part of the GPU could not be taken out of use", (157,)),
    ("reset the GPU", "the GPU timed out and did not recover", (158,)),
    ("unknown", "a wrong answer on the link between processor and GPU", (159,)),
    ("nothing", "a memory channel was taken out of use", (160,)),
    ("nothing", "a memory channel could not be taken out of use", (161,)),
    ("unknown", "the circuit that smooths power was switched on again", (162,)),
    ("unknown", "the circuit that smooths power was switched off", (163,)),
    ("unknown", "the circuit that smooths power is near the end of its life", (164,)),
    ("unknown", "the circuit that smooths power is at the end of its life", (165,)),
    ("unknown", "traffic over NVLink before encryption was set up", (166,)),
    ("unknown", "PCIe timed out and did not recover", (167,)),
    ("reboot the host", "memory was lost to errors in a protected region", (168,)),
    ("unknown", "the GPU's security processor halted", (169,)),
    ("unknown", "an encrypted NVLink interrupt", (170,)),
    ("unknown", "the related Xid 48 was a DRAM error", (171,)),
    ("unknown", "the related Xid 48 was an SRAM error", (172,)),
)

XIDS: dict[int, tuple[Action, str]] = {code: (action, meaning) for action, meaning, codes in _XIDS for code in codes}

# Actions in the text of Xid 154 ("… changed from 0x0 (None) to 0x1 (GPU Reset Required)").
RECOVERIES: dict[str, Action] = {
    "None": "nothing",
    "GPU Reset Required": "reset the GPU",
    "Drain and Reset": "reset the GPU",
    "Node Reboot Required": "reboot the host",
}
