"""Sentences of edits in English and Chinese."""

from __future__ import annotations

from paralign.catalogue.entries import Words


def instead(have: str, due: str, of: str = "") -> tuple[Words, Words]:
    """One thing stands where the reference has another; what to write."""
    who, who_zh = (f"{of}: ", f"{of}：") if of else ("", "")  # noqa: RUF001 - Chinese punctuation
    return (
        Words(f"{who}the candidate has `{have}`, the reference `{due}`", f"{who_zh}复现为 `{have}`，参考为 `{due}`"),  # noqa: RUF001 - as above
        Words(f"write `{due}`", f"改为 `{due}`"),
    )


def tried(have: str, due: str, of: str = "") -> tuple[Words, Words]:
    """An edit that no line of the reference tells."""
    who, who_zh = (f"{of}: ", f"{of}：") if of else ("", "")  # noqa: RUF001 - Chinese punctuation
    return (
        Words(
            f"{who}`{have}` does not compute what the reference computes; `{due}` does",
            f"{who_zh}`{have}` 与参考的计算不同，`{due}` 相同",  # noqa: RUF001 - as above
        ),
        Words(f"write `{due}`", f"改为 `{due}`"),
    )


def turned(first: str, second: str) -> tuple[Words, Words]:
    """Two statements come in another order."""
    return (
        Words(
            f"`{first}` comes before `{second}`; the reference does the two in the other order",
            f"`{first}` 先于 `{second}`，参考的次序相反",  # noqa: RUF001 - as above
        ),
        Words(f"put `{second}` before `{first}`", f"把 `{second}` 放到 `{first}` 之前"),
    )


def exchanged(first: str, second: str) -> tuple[Words, Words]:
    """Two statements come in an order that no line of the reference tells of."""
    return (
        Words(
            f"with `{first}` before `{second}` the candidate does not compute what the reference computes; in the other order it does",
            f"`{first}` 先于 `{second}` 时与参考的计算不同，交换次序后相同",  # noqa: RUF001 - as above
        ),
        Words(f"put `{second}` before `{first}`", f"把 `{second}` 放到 `{first}` 之前"),
    )


def lacking(what: str, whole: str) -> tuple[Words, Words]:
    """Something is missing."""
    return (
        Words(f"the reference has `{what}` here, the candidate leaves it out", f"参考此处有 `{what}`，复现缺少"),  # noqa: RUF001 - as above
        Words(f"write `{whole}`", f"改为 `{whole}`"),
    )


def beyond(what: str, whole: str) -> tuple[Words, Words]:
    """Something is there that the reference does not do."""
    return (
        Words(f"the candidate has `{what}` here, which the reference does not do", f"复现此处多出 `{what}`，参考没有"),  # noqa: RUF001 - as above
        Words(f"write `{whole}`" if whole else "leave it out", f"改为 `{whole}`" if whole else "删去"),
    )
