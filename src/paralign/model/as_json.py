"""Results as ``report.json`` holds them (schema: docs/report.md)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

if TYPE_CHECKING:
    from paralign.model.divergences import Divergence
    from paralign.model.judged_pairs import Pair
    from paralign.model.records import Record


def dict_or_none(value: Any) -> Optional[Dict[str, Any]]:
    """A dataclass as a dict; None for None."""
    return asdict(value) if value else None


def pair_to_dict(pair: Pair) -> Dict[str, Any]:
    """A pair, with a short form of its two records."""
    return {
        "key": pair.key,
        "verdict": pair.verdict,
        "judged": pair.judged,
        "how": pair.how,
        "transform": pair.transform,
        "reference": _record_to_dict(pair.reference),
        "candidate": _record_to_dict(pair.candidate),
        "error": pair.error,
        "noise": pair.noise.value if pair.noise else None,
        "noise_from": pair.noise.how if pair.noise else None,
        "ratio": pair.ratio,
        "granted": dict_or_none(pair.granted),
        "stats": dict_or_none(pair.stats),
        "notes": pair.notes,
    }


def _record_to_dict(record: Optional[Record]) -> Optional[Dict[str, Any]]:
    if record is None:
        return None
    return {
        "name": record.key,
        "op": record.op,
        "dtype": record.dtype,
        "shape": list(record.shape),
        "source": record.source,
        "text": record.text,
    }


def divergence_to_dict(divergence: Divergence) -> Dict[str, Any]:
    """A divergence; without notes of its own, it has those of its pair."""
    notes = divergence.notes
    if not notes and divergence.pair is not None:
        notes = divergence.pair.notes
    return {
        "reference": dict_or_none(divergence.reference),
        "candidate": dict_or_none(divergence.candidate),
        "pair": divergence.pair.key if divergence.pair else None,
        "inputs_agree": divergence.inputs_agree,
        "last_agreeing": divergence.last_agreeing,
        "confirmed": divergence.confirmed,
        "what": divergence.what,
        "rule": divergence.rule,
        "proposals": [asdict(p) for p in divergence.proposals],
        "error_before": divergence.error_before,
        "error": divergence.error,
        "error_after": divergence.error_after,
        "noise": divergence.noise,
        "repeats": divergence.repeats,
        "relation": divergence.relation,
        "region": divergence.region,
        "value": plain(dict_or_none(divergence.value)),
        "chain": divergence.chain,
        "notes": notes,
    }


def plain(value: Any) -> Union[bool, int, float, str, List[Any], Dict[str, Any], None]:
    """A value as JSON can hold it.

    Dataclasses become dicts; infinities and NaN become the strings ``inf``, ``-inf``, ``nan``.
    """
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value  # type: ignore[no-any-return]
