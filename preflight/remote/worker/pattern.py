"""Test data: each rank's inputs, the expected results, and the rank with a wrong part. Exact in every type and
operation.

A tensor consists of pieces, rows of a matrix, each with a source and a lane. The lane tells pieces of a source apart,
by their destination or direction. A piece repeats a block: integers 1, 2, 3 … up to a prime. It begins elsewhere for
every source, lane and iteration, so that a piece that is swapped, shifted, stale or missing shows. 0 is never expected.

A reduction of ranks' parts has only partial results that are integers and that the type holds exactly, so that nothing
depends on the order (docs/probe-internals.md, "Values"). Place i belongs to one rank, in turns, and has a factor f[i]:

- sum: that rank gives 2 f[i], the others f[i]. If the total leaves the exact range, they give f[i] and 0.
- max: that rank gives f[i], the others -f[i].
- min: the negative of that.
- prod: that rank gives f[i], the one after it -1, the others 1.

The culprit of a wrong sum is computed. Let rank r's part count 1 + c[r] times. The result then differs at the places of
rank t by f[i] (c[0] + c[1] + … + c[t]), a sum over all ranks in which c[t] counts twice. From these n differences
follows every c. So if they are those of one rank with a part that is missing, doubled, halved or negated, they are not
those of another rank, nor of two at once.
"""

import torch

# Largest magnitude up to which every integer is exact.
EXACT = {
    "uint8": 2**8 - 1,
    "int8": 2**7 - 1,
    "int16": 2**15 - 1,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
    "bfloat16": 2**8,
    "float16": 2**11,
    "float32": 2**24,
    "float64": 2**53,
}
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
IN_PLACE = ("all_reduce", "broadcast", "reduce")
SPLIT = ("all_gather", "reduce_scatter", "scatter", "gather", "all_to_all")  # a piece has the size-th part of the bytes
_PRIMES = (1021, 251, 127, 61, 31, 13, 11, 7, 5, 3, 2)  # out of step with chunk sizes and rank counts
_SHORTEST = 5  # a shorter period would hide too many stale or shifted values
_BLOCK = 8192  # elements of a block at least, if the piece has as many: shorter ones are slow to copy
_SAMPLE = 4096  # places, from the first wrong one, at which an explanation is checked


def sent_pieces(op, rank, root, size):
    """Return (source, lane) of each piece that a rank sends."""
    if op in ("all_to_all", "reduce_scatter") or (op == "scatter" and rank == root):
        return [(rank, destination) for destination in range(size)]
    if op == "send_recv":  # to the next rank and to the one before
        return [(rank, 0), (rank, 1)]
    if op in ("broadcast", "scatter") and rank != root:
        return []
    return [(rank, 0)]


def received_pieces(op, rank, root, size):
    """Return (source, lane) of each piece that a rank receives; a reduced piece has no single source."""
    if op in ("gather", "reduce") and rank != root:
        return []
    if op in ("all_gather", "gather"):
        return [(source, 0) for source in range(size)]
    if op == "all_to_all":
        return [(source, rank) for source in range(size)]
    if op == "send_recv":
        return [((rank - 1) % size, 0), ((rank + 1) % size, 1)]
    return [{"scatter": (root, rank), "broadcast": (root, 0), "reduce_scatter": (None, rank)}.get(op, (None, 0))]


def bytes_of_piece(test, size):
    """Return the bytes of one piece, out of the bytes of a test."""
    return test["bytes"] // (size if test["op"] in SPLIT else 2 if test["op"] == "send_recv" else 1)


class Pattern:
    """The pieces of one rank in one test: `count` elements each."""

    def __init__(self, test, rank, size):
        self.op, self.reduction, self.rank, self.size = test["op"], test["reduction"], rank, size
        self.dtype = getattr(torch, test["dtype"])
        self.count = max(1, bytes_of_piece(test, size) // torch.empty(0, dtype=self.dtype).element_size())
        self.sent = sent_pieces(self.op, rank, test["root"], size)
        self.received = received_pieces(self.op, rank, test["root"], size)
        limit = EXACT[test["dtype"]]
        shared_limit = limit // (size + 3)  # a sum is (size + 1) f, with a part that is counted twice (size + 3) f
        self.shared = self.reduction == "sum" and shared_limit >= _SHORTEST
        own_limit = {"max": limit // 2, "min": limit // 2, "prod": int(limit**0.5)}.get(self.reduction, limit)
        self.period = next(prime for prime in _PRIMES if prime <= (shared_limit if self.shared else own_limit))
        cycle = self.period * size  # places that the same rank owns have different factors
        self.length = min(self.count, cycle * -(-_BLOCK // cycle))
        self.row = torch.arange(self.length + self.period) % self.period + 1

    def inputs(self, turn):
        """Return the blocks that this rank sends in an iteration."""
        make = self._part if self.op in REDUCING else self._block
        return self._rows([make(source, lane, turn) for source, lane in self.sent])

    def expected(self, turn):
        """Return the blocks of the result that this rank must receive in an iteration."""
        if self.op in REDUCING:
            return self._rows([self._reduced(lane, turn) for _, lane in self.received])
        return self._rows([self._block(source, lane, turn) for source, lane in self.received])

    def _rows(self, blocks):
        rows = torch.stack(blocks) if blocks else torch.empty(0, self.length)
        return rows.to(self.dtype)

    def _factor(self, shift):
        begin = shift % self.period
        return self.row[begin : begin + self.length]

    def _block(self, source, lane, turn):
        return self._factor(source + 37 * lane + 7 * turn)  # 37: the data from A to B differ from those from B to A

    def _owner(self, lane):
        return (torch.arange(self.length) + lane) % self.size

    def _part(self, rank, lane, turn):
        """Return a rank's contribution to a result."""
        return self._share(rank, self._factor(37 * lane + 7 * turn), self._owner(lane))

    def _share(self, rank, factor, owner):
        """Return a rank's part at places with these factors and owners."""
        if self.shared:
            return torch.where(owner == rank, 2 * factor, factor)
        unowned = {"sum": factor * 0, "max": -factor, "min": -factor}.get(self.reduction)
        if unowned is None:
            unowned = torch.where((owner + 1) % self.size == rank, factor * 0 - 1, factor * 0 + 1)
        part = torch.where(owner == rank, factor, unowned)
        return -part if self.reduction == "min" else part

    def _reduced(self, lane, turn):
        factor = self._factor(37 * lane + 7 * turn)
        if self.shared:
            return factor * (self.size + 1)
        negative = self.reduction == "min" or (self.reduction == "prod" and self.size > 1)
        return -factor if negative else factor

    def compare(self, result, turn):
        """Return (number of wrong values, place and value of the first, rank with the wrong part or None) of the rows
        in `result`."""
        expected = self.expected(turn)
        if all(torch.equal(part, block.expand_as(part)) for part, block in _parts(result, expected)):
            return 0, "", None
        expected = expected.repeat(1, -(-self.count // self.length))[:, : self.count]
        wrong = (result != expected).nonzero()
        row, column = wrong[0].tolist()
        source = self.received[row][0]
        text = "index %d of %d%s: found %s, expected %s" % (
            column,
            self.count,
            "" if source is None else " of what rank %d sent" % source,
            result[row, column].item(),
            expected[row, column].item(),
        )
        if source is None:
            suspect = self._suspect(result[0], expected[0], wrong[:, 1], turn)
        else:
            sources = {self.received[row][0] for row in wrong[:, 0].unique().tolist()}
            suspect = sources.pop() if len(sources) == 1 else None
        return len(wrong), text, suspect

    def _suspect(self, result, expected, wrong, turn):
        """Return the only rank with a part that, wrong by itself, explains the wrong values; None if several ranks
        could, or none.

        An explanation has to hold from the first wrong place to the last, the right ones in between included.
        """
        begin = int(wrong[0])
        end = min(int(wrong[-1]) + 1, begin + max(_SAMPLE, 2 * self.size))
        result, expected = result[begin:end], expected[begin:end]
        differs = expected[result != expected]
        if end - begin <= self.size or differs.min() == differs.max():
            return None  # too few values to decide
        lane, places = self.received[0][1], torch.arange(begin, end) % self.length
        factor, owner = self._factor(37 * lane + 7 * turn)[places], self._owner(lane)[places]
        if self.shared:
            ranks = self._scaled(result, factor, owner)
        elif self.reduction == "prod":
            ranks = self._missing_or_twice(result, factor, owner)
        else:
            rank = int(owner[0])  # exactly the places that it decides are wrong
            ranks = [rank] if torch.equal(owner == rank, result != expected) else []
        return ranks[0] if len(ranks) == 1 else None

    def _scaled(self, result, factor, owner):
        """Return the ranks with a part that the whole sum has too much or too little of, by the same multiple
        everywhere."""
        if len(result) < 2 * self.size:
            return []
        excess = result.to(torch.float64) - factor * (self.size + 1)
        parts = ((rank, self._share(rank, factor, owner)) for rank in range(self.size))
        return [rank for rank, part in parts if torch.equal(excess * part[0], part * excess[0])]

    def _missing_or_twice(self, result, factor, owner):
        """Return the ranks with a part that the product lacks, or has twice."""
        total, ranks = -factor if self.size > 1 else factor, []
        for rank in range(self.size):
            part = self._share(rank, factor, owner)
            if any(torch.equal(result, guess.to(self.dtype)) for guess in (total // part, total * part)):
                ranks.append(rank)
        return ranks


def fill(rows, blocks):
    """Fill the rows with repeated blocks, which are on the same device as the rows."""
    for part, block in _parts(rows, blocks):
        part.copy_(block)


def _parts(rows, blocks):
    """Yield the rows as whole blocks and a remainder, each with the part of the blocks that it is to hold."""
    length = blocks.shape[1]
    whole = rows.shape[1] // length * length
    if whole:
        yield rows[:, :whole].view(len(rows), -1, length), blocks[:, None]
    if whole < rows.shape[1]:
        yield rows[:, whole:], blocks[:, : rows.shape[1] - whole]
