"""What a judge says in the end, with hashes of everything that it is about."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from paralign.model import plain


class Judgement(Enum):
    """What can become of a port, with its exit code."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    TAMPERED = "tampered"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"

    @property
    def code(self) -> int:
        """The exit code of ``paralign verify``."""
        return {"accepted": 0, "rejected": 1, "failed": 3, "inconclusive": 4, "tampered": 5}[self.value]


@dataclass(frozen=True)
class Round:
    """One set of drawn weights and inputs, and what each stage came to.

    The verdict, error ÷ noise and reason of each stage, by its name.
    """

    number: int
    verdicts: dict[str, str]
    ratios: dict[str, float | None]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Certificate:
    """The judgement, why, and what it is about.

    ``specification``, ``port`` and ``judge`` are SHA-256 of the files, ``adapters`` of those of each package of adapters that the processes
    were told of; ``versions`` those of both sides' frameworks. ``looked`` says in words what was compared, ``weaknesses`` what was not.
    """

    judgement: Judgement
    reasons: list[str]
    specification: str
    port: str
    judge: str
    rounds: list[Round]
    versions: dict[str, dict[str, str]]
    looked: str
    weaknesses: list[str]
    created: str
    port_files: dict[str, str] = field(default_factory=dict)
    adapters: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        told: Any = plain({**asdict(self), "judgement": self.judgement.value, "schema": 1})
        return dict(told)

    def to_json(self, key: bytes = b"") -> str:
        """The certificate with its own hash (``sha256``), as text.

        With a key its HMAC (``hmac``) is there too.

        Args:
            key: known to the judge and to those who trust it.
        """
        body = self.to_dict()
        text = canonical(body)
        body["sha256"] = hashlib.sha256(text).hexdigest()
        if key:
            body["hmac"] = hmac.new(key, text, "sha256").hexdigest()
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def canonical(body: dict[str, Any]) -> bytes:
    """What is hashed of a certificate: everything but its own hashes."""
    own = {name: value for name, value in body.items() if name not in ("sha256", "hmac")}
    return json.dumps(own, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def genuine(text: str, key: bytes = b"") -> bool:
    """Whether a certificate's text is as it was written; with a key, by one who has it."""
    body = json.loads(text)
    if not isinstance(body, dict):
        return False
    known = hmac.new(key, canonical(body), "sha256").hexdigest() if key else hashlib.sha256(canonical(body)).hexdigest()
    return hmac.compare_digest(str(body.get("hmac" if key else "sha256", "")), known)
