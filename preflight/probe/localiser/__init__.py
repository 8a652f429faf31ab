"""The parts of the localiser, in the order in which data flows: types, evidence, rules, plan. Its way in is
`preflight.probe.localise`."""
