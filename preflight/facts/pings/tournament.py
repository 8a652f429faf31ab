"""Who meets whom in which step, so that nobody is met by two at a time."""


def steps(players: int) -> int:
    """How many steps it takes until everybody has met everybody."""
    return players - 1 if players % 2 == 0 else players


def opponent(player: int, step: int, players: int) -> int | None:
    """Whom `player` (0 … players-1) meets in `step` (0 … steps-1) of a round-robin tournament; None: nobody.

    This is the circle method, in closed form: of an odd number of players, those whose numbers add up to `step` meet,
    and the one who would meet himself rests. An even number is an odd one and a last player, who meets the one that
    rests. So the pairs of a step are disjoint, and every pair meets once.
    """
    circle = players if players % 2 else players - 1
    if player == circle:
        return step * (circle + 1) // 2 % circle  # the one with 2 * number = step
    partner = (step - player) % circle
    if partner != player:
        return partner
    return circle if circle < players else None
