"""A training step as a job does it: a small model, DistributedDataParallel, DistributedSampler, an optimizer.

The model is that of the vendor's example of a job on several devices: Linear 10-10, ReLU, Linear 10-5. Afterwards all
ranks must have the same parameters, bit by bit, and those that one process gets from the same global batches.

The latter holds within a tolerance, because one process adds up in another order, here in float64. The tolerance is a
share of the largest change. It is 2^-12 where the device keeps float32's 24 bits in a product: the roundings of three
steps need less than a tenth of that. It is 2^-6 where the device multiplies with 11 bits or fewer (TF32, HF32,
float16), which is measured, not concluded from the product. Two effects could magnify a rounding, and are avoided.
Every unit of the first layer is far from ReLU's corner, where a last bit decides whether a gradient flows. SGD is used,
because Adam turns the last bit of a gradient near zero into a whole step.
"""

import time
from collections import Counter

import torch
import torch.distributed as dist
import torch.utils.data.distributed

BATCH = 4  # samples a rank and step
STEPS = 3
RATE, MOMENTUM = 0.1, 0.9
TIGHT, LOOSE = 2.0**-12, 2.0**-6


def make_model():
    """Return the model in float32, with the same parameters wherever it is made: none is random."""
    net = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5))
    with torch.no_grad():
        for number, parameter in enumerate(net.parameters()):
            parameter.copy_(0.1 * _waves(parameter.numel(), number).view_as(parameter))
        net[0].bias.copy_(torch.tensor([3.0, -3.0] * 5))  # |W x| <= 1: half the units are always on, half always off
    return net


def _waves(count, seed):
    """Return `count` numbers between -1 and 1."""
    return torch.sin(torch.arange(count, dtype=torch.float64) * (1 + 0.1 * seed) + seed).float()


def load(rank, size, batch):
    """Return the batches of rank `rank` of `size`. One process with a batch as large as all ranks' gets the global
    batches."""
    count = size * batch * STEPS
    # The targets are away from zero, so that training changes the parameters, however many samples there are.
    data = torch.utils.data.TensorDataset(
        _waves(10 * count, 7).view(count, 10), 1 + _waves(5 * count, 11).view(count, 5)
    )
    sampler = torch.utils.data.distributed.DistributedSampler(data, size, rank, shuffle=True, seed=0)
    return torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler)


def backward(net, batch, device, dtype):
    inputs, targets = (part.to(device, dtype) for part in batch)
    torch.nn.functional.mse_loss(net(inputs), targets).backward()


def train(net, batches, device, dtype, synchronise):
    """Train with the batches, and return the seconds of each step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    seconds = []
    for batch in batches:
        synchronise()
        begin = time.perf_counter()
        optimizer.zero_grad()
        backward(net, batch, device, dtype)
        optimizer.step()
        synchronise()
        seconds.append(time.perf_counter() - begin)
    return seconds


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def training_step(_, spec, access, say):
    """Train, exchange the results of all ranks, and report how many of this rank's own values are wrong.

    `suspect`: the one rank with a wrong gradient or wrong parameters. Without a wrong value `first` may report that
    ranks differ by roundings, in no pattern that identifies a rank: an all_reduce that adds in no fixed order does
    that.
    """
    rank, size = spec["rank"], spec["size"]
    device = torch.device(access.place(spec["device"]))
    share = TIGHT if keeps_24_bits(device) else LOOSE
    off = gradient_off(rank, size, device, share)
    net = make_model().to(device)
    ids = {} if device.type == "cpu" else {"device_ids": [device.index], "output_device": device.index}
    parallel = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True, **ids)
    seconds = train(parallel, load(rank, size, BATCH), device, torch.float32, access.synchronise)
    row = flat([*net.parameters(), torch.full((1,), float(off), device=device)])
    rows = [torch.empty_like(row) for _ in range(size)]
    dist.all_gather(rows, row)
    access.synchronise()
    table = torch.stack([row.to("cpu") for row in rows])
    wrong, first, suspect = judge(rank, table[:, :-1].contiguous(), table[:, -1], in_one_process(size), share)
    say({"at": "result", "seconds": seconds, "wrong": wrong, "first": first, "suspect": suspect})


def keeps_24_bits(device):
    """True if a product of float32 on the device uses the whole mantissa."""
    number = 1 + 2.0**-12
    matrix, identity = torch.full((16, 16), number, device=device), torch.eye(16, device=device)
    return torch.nn.functional.linear(matrix, identity)[0, 0].item() == number


def in_one_process(size):
    """Return the parameters of one process after the same global batches, in float64."""
    net = make_model().double()
    train(net, load(0, 1, BATCH * size), "cpu", torch.float64, lambda: None)
    return flat(net.parameters())


def gradient_off(rank, size, device, share):
    """Return how many values of this rank's own gradient differ from the host's, before it is mixed with those of other
    ranks.

    Such a difference means that this device computes wrong.
    """
    batch = next(iter(load(rank, size, BATCH)))
    tested, exact = make_model().to(device), make_model().double()
    backward(tested, batch, device, torch.float32)
    backward(exact, batch, "cpu", torch.float64)
    grads, expected = (flat(weights.grad for weights in net.parameters()).to("cpu") for net in (tested, exact))
    return int(_beyond(grads, expected, share * expected.abs().max()).sum())


def judge(rank, parameters, off, expected, share):
    """Return (number of wrong values of this rank, description of the first, rank at fault or None).

    `parameters`: those of all ranks, float32 [ranks, n]. `off`: the number of wrong values in each rank's own gradient.
    `expected`: float64 [n], within `share` of the largest change.
    """
    bits = parameters.view(torch.int32)  # NaN equals itself in bits
    rows = list(map(tuple, bits.tolist()))
    usual = rows.index(Counter(rows).most_common(1)[0][0])
    outliers = [number for number, row in enumerate(rows) if row != rows[usual]]
    start = flat(make_model().parameters()).double()
    beyond = _beyond(parameters, expected, share * (expected - start).abs().max())
    peer = usual if rank in outliers else next(iter(outliers), rank)
    wrong = beyond[rank]
    # Roundings make several ranks differ, and the sum of two ranks has only one order.
    if len(outliers) == 1 and (rank in outliers or len(rows) == 2):
        wrong = wrong | (bits[rank] != bits[peer])
    if wrong.any():
        place = int(wrong.nonzero()[0])
        text = _describe(parameters[:, place], expected[place], rank, peer)
        text = "parameter %d of %d is %s" % (place, len(wrong), text)
        return int(wrong.sum()), text, _suspect(rank, off, outliers, beyond)
    if off[rank]:
        return int(off[rank]), "%d values of the device's gradient differ from the host's" % off[rank], rank
    if rank in outliers:
        return 0, "%d of %d ranks differ from the others by roundings" % (len(outliers), len(rows)), None
    return 0, "", None


def _describe(values, expected, rank, peer):
    """Return a wrong value, that of a peer if it is another rank, and the expected value."""
    on_peer = "" if peer == rank else ", on rank %d %.9g" % (peer, values[peer])
    return "%.9g%s, in a single process %.9g" % (values[rank], on_peer, expected)


def _suspect(rank, off, outliers, beyond):
    """Return the one rank that the strongest evidence points at, this rank first; None if there is none."""
    if off[rank]:
        return rank
    evidence = (
        [number for number, count in enumerate(off) if count],  # this device computes wrong, whatever the others sent
        outliers if len(off) > 2 else [],
        [number for number, mask in enumerate(beyond) if mask.any()],
    )
    return next((suspects[0] for suspects in evidence if len(suspects) == 1), None)


def _beyond(values, expected, tolerance):
    """Return the mask of values that are further apart than the tolerance, or not a number."""
    return ~((values.double() - expected).abs() <= tolerance)
