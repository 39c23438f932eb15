"""Right numbers of a list or array in an order that the reference has nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.search import counterpart_operand
from paralign.locate.provenance.search.blamed import Blamed, blamed
from paralign.locate.provenance.values.casts import maker_before_casts, maker_of_filling
from paralign.locate.provenance.values.expression_traits import has_telling_order
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paralign.locate.provenance.values.seen_values import Seen
    from paralign.locate.provenance.values.value_graph import Expression


class WrongOrder:
    """Where the order of a value became another one.

    Args:
        root: the value whose numbers are right and stand in a wrong order.
        seen: what the reference made, with its orders.
        is_right: whether a value is the reference's whatever its order; None where that cannot be told.
    """

    def __init__(self, root: Expression, seen: Seen, is_right: Callable[[Expression], bool | None]) -> None:
        self.root, self.seen, self.is_right = root, seen, is_right
        self._settled: dict[Expression, bool] = {}

    def firsts(self) -> list[Expression]:
        """What puts right orders into a wrong one: of one line, empty where several do."""
        led = self._led_to()
        wrong = {e for e in led if has_telling_order(e) and not self.seen.has_ordered(e) and not counterpart_operand.is_repeated(e)}
        above = self._made_of(wrong, led)
        firsts = [e for e in led if e in wrong and not e.is_copy and e not in above]
        is_of_ordered = any(self._is_ordered(inner) for e in firsts for _, inner in e.values)
        return firsts if len({e.source for e in firsts}) == 1 and is_of_ordered else []

    def wrong_number(self, firsts: Sequence[Expression]) -> Expression | None:
        """A single number among their operands that the reference does not have, such as a seed."""
        operands = (inner for each in firsts for _, inner in each.values)
        return next((inner for inner in operands if inner.mark[0] == "s" and self.is_right(inner) is False), None)

    def blamed(self, first: Expression) -> Blamed | None:
        """The expression to name: what fills an array or hands its rows on, if there is one."""
        maker = maker_of_filling(first) or maker_before_casts(first)
        return Blamed(maker, [maker, first], placed=True) if maker is not None else blamed(first, [first], None)

    def _led_to(self) -> list[Expression]:
        """The value and what it was made of, up to right numbers and right orders."""
        return list(reached([self.root], self._looked_into))

    def _looked_into(self, each: Expression) -> Iterable[Expression]:
        return each.operands if each is self.root or not self._is_settled(each) else []

    def _made_of(self, wrong: Iterable[Expression], led: Iterable[Expression]) -> set[Expression]:
        """What others of these values were made of wrong ones."""
        users: dict[Expression, list[Expression]] = {}
        for each in led:
            for inner in self._looked_into(each):
                users.setdefault(inner, []).append(each)
        first = [user for each in wrong for user in users.get(each, ()) if user is not each]
        return set(reached(first, lambda each: users.get(each, ())))

    def _is_settled(self, each: Expression) -> bool:
        """Whether a value is a right number, or many in their right order."""
        if each not in self._settled:
            if has_telling_order(each):
                self._settled[each] = self.seen.has_ordered(each)
            else:
                self._settled[each] = each.mark[0] == "s" and bool(self.is_right(each))
        return self._settled[each]

    def _is_ordered(self, each: Expression) -> bool:
        """Whether an operand, or each part of a list, is in an order of the reference's."""
        parts = [inner for _, inner in each.values] if each.kind == "display" else [each]
        return all(has_telling_order(e) and self.seen.has_ordered(e) for e in parts)
