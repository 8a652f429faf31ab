"""Operations that ranks run as tests, and the bandwidth that follows from their times. Pure."""
