"""Forsyth-Edwards notation."""
PIECES = "PNBRQKpnbrqk"


def parse(fen):
    """-> (dict square -> piece letter, white to move?, castling rights, half-move clock); a1 is 0, h8 is 63."""
    placement, turn, castling, _, clock, _ = fen.split()
    board = {}
    for row, text in enumerate(placement.split("/")):
        column = 0
        for letter in text:
            if letter.isdigit():
                column += int(letter)
            else:
                board[(7 - row) * 8 + column] = letter
                column += 1
    return board, turn == "w", castling, int(clock)


def from_mover(board, white):
    """The board as the side to move sees it: black's is mirrored, and its colours are swapped."""
    if white:
        return board
    return {square ^ 56: letter.swapcase() for square, letter in board.items()}
