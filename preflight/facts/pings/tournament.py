"""Schedule of a round-robin tournament: in every step a player meets at most one other player."""


def steps(players: int) -> int:
    """Return the number of steps after which all pairs of players have met."""
    return players - 1 if players % 2 == 0 else players


def opponent(player: int, step: int, players: int) -> int | None:
    """Return the opponent of `player` (0 … players-1) in `step` (0 … steps-1) of a round-robin tournament, or None.

    This is the circle method, in closed form. With an odd number of players, two players meet if their numbers add up
    to `step`, modulo that number. The player that would meet itself rests. With an even number, the last player meets
    the one that rests. So the pairs of a step are disjoint, and every pair meets once.
    """
    circle = players if players % 2 else players - 1
    if player == circle:
        return step * (circle + 1) // 2 % circle  # the player with 2 * number = step, modulo circle
    partner = (step - player) % circle
    if partner != player:
        return partner
    return circle if circle < players else None
