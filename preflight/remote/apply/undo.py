"""Undoing a run: the effects of a run as its journal shows them, and the changes that lead back."""

import os

from apply.journal import record_of, records
from apply.kinds import kind_of, value_of


def undo_of(directory, run):
    """Return (changes, files not put back): the changes lead back to the state before a run, in the order to make them.
    Return (None, []) if the run was not here.

    Only the final effect of the run counts. A change that its guardian or an earlier rollback, even an unfinished one,
    has taken back needs no undoing. A file that a tool rewrote, and a target that a step changed besides, is put back
    after the step itself. A file that has only some lines of ours, and that another program has changed since, loses
    these lines only. A step without an end may have happened: compare-and-set will show.
    """
    run_records = records(directory, run)
    if run_records is None:
        return None, []
    for rollback in rollbacks_of(directory, run):
        run_records += with_run(records(directory, rollback), rollback)
    effects = Effects()
    for record in run_records:
        effects.add(record)
    changed = list(filter(differs, reversed(list(effects.of_target.values()))))
    files_left = [effect.target for effect in changed if effect.lines and has_moved(effect)]
    return [inverse(effect) for effect in changed if effect.target not in files_left], files_left


class Effect:
    """First and last value of a target. `lines`: the step itself removes all of our lines. `frozen`: another program
    has changed the target since `last`."""

    def __init__(self, area, kind, target, value, lines=False):
        self.area, self.kind, self.target, self.lines = area, kind, target, lines
        self.first = self.last = value
        self.frozen = False


class Effects:
    """Effects of a run and of its rollbacks, one for each target, in the order of first touch."""

    def __init__(self):
        self.of_target = {}  # (kind, target) → effect
        self.begun = {}  # (run, step, undo) without an end → (effect, value after the step)

    def add(self, record):
        """Take in the next record."""
        step_key = (record.get("run"), record.get("step"), record.get("undo"))
        if record["event"] == "begin":
            self.begun[step_key] = (self.begin(record), record["after"])
        elif record["event"] == "end" and step_key in self.begun:
            self.end(record, *self.begun.pop(step_key))
        elif record["event"] == "end" and record["state"] == "already" and "after" in record:
            own_effect = self.of_target.get((record["kind"], record["target"]))
            if own_effect:  # taken back by a guardian that could not write, or by another program
                own_effect.last = record["after"]

    def begin(self, record):
        """Return the effect of a step that begins, on its own target."""
        lines = kind_of(record["kind"]).lines
        for kind, target, value in record["others"]:
            side_effect = self.of_target.setdefault((kind, target), Effect(record["area"], kind, target, value, lines))
            if kind == "file" and value != side_effect.last:  # later writes by a tool are not ours alone
                side_effect.frozen = True
        key = record["kind"], record["target"]
        own_effect = self.of_target.setdefault(key, Effect(record["area"], *key, record["before"]))
        own_effect.last = record["after"]
        return own_effect

    def end(self, record, own_effect, new_value):
        """Set the last values after a step."""
        is_made = record["state"] == "done" or record.get("unknown")
        own_effect.last = new_value if is_made else record["found"]
        for kind, target, value in record["others"]:
            if not self.of_target[kind, target].frozen:
                self.of_target[kind, target].last = value


def inverse(effect):
    """Return the change that leads from the last value back to the first."""
    target = {"kind": effect.kind, "target": effect.target, "area": effect.area}
    return dict(target, before=effect.last, after=effect.first)


def has_moved(effect):
    """Return whether another program has changed the target since."""
    return value_of(effect.kind, effect.target) not in (effect.first, effect.last)


def differs(effect):
    comparable = kind_of(effect.kind).same
    return comparable(effect.first) != comparable(effect.last)


def rollbacks_of(directory, run):
    """Return the runs that took this run back, or took back one of its rollbacks, in the order in which they were
    made."""
    undoes = {}
    for name in os.listdir(directory):
        if name.endswith(".jsonl"):
            with open(os.path.join(directory, name), "rb") as file:
                start = record_of(file.readline()) or {}
            if start.get("event") == "start":
                undoes[name[: -len(".jsonl")]] = start.get("undoes")
    family = [run]
    for member in family:  # grows meanwhile
        family += [name for name, reverted_run in undoes.items() if reverted_run == member and name not in family]
    return sorted(family[1:])  # a run's id begins with its time


def with_run(run_records, run):
    """Return a run's records with numbers that no other run has."""
    return [dict(record, run=run) for record in run_records]
