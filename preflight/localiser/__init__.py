"""Who is at fault, from tests over groups. In the order in which data flows: types, evidence, rules, plan; `localise`
is the way in, `merge` puts the verdicts of rails together. Pure, and below `checks`: pings and the probe feed it."""
