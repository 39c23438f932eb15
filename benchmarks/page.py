"""How fast the page of a ResNet-50 with every operation opens and answers, in headless chromium: ``make page``.

Both sides are Paddle's ResNet-50; the candidate has one BatchNorm with another epsilon. Times are those of the browser itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))
from browser import CHROMIUM, Browser

SIDE = """import paddle
from paddle.vision.models import resnet50


def build_model():
    paddle.seed(0)
    model = resnet50()
    {change}
    return model


def loss(outputs, labels):
    return paddle.nn.functional.cross_entropy(outputs, labels)


def build_optimizer(model):
    return paddle.optimizer.Momentum(0.01, parameters=model.parameters())
"""

PROJECT = """stages = ["weights", "forward", "loss", "backward"]

[reference]
framework = "paddle"
module = "reference.py"

[candidate]
framework = "paddle"
module = "candidate.py"

[inputs]
shape = [2, 3, 64, 64]

[labels]
shape = [2]
dtype = "int64"
high = 1000
"""

#: what a reader does -> the script that does it, synchronously; each is timed until the page is laid out again
ACTS = {
    "open the values of the last stage": "const d = last('details.values'); d.parentElement.open = true; d.open = true",
    "search the values": "typed(last('details.values .search'), 'bn')",
    "scroll to the trees": "document.querySelector('section.operations').scrollIntoView()",
    "search the operations": "typed(last('section.operations .search'), 'conv')",
    "choose an operation": "document.querySelector('[data-side=candidate] .op').click()",
    "back to the trees": "typed(last('section.operations .search'), '')",
    "open a block": "document.querySelector('[data-side=candidate] details:not([open]) summary').click()",
    "change the language": "document.getElementById('language').click()",
    "change the theme": "document.getElementById('theme').click()",
}

#: how many operations the page has
OPERATIONS = "unpack(document.querySelector('section.operations')).then(all => all.reference.length + all.candidate.length)"

#: a script -> milliseconds until two frames later, what a reader sees
TIMED = """(async () => {{ const last = name => [...document.querySelectorAll(name)].pop();
const typed = (box, text) => {{ box.value = text; box.dispatchEvent(new Event('input')); }};
const began = performance.now(); {script}; document.body.offsetHeight;
await new Promise(done => requestAnimationFrame(() => setTimeout(done))); return performance.now() - began; }})()"""


def checked(folder: Path) -> Path:
    """A result of a check of ResNet-50."""
    (folder / "paralign.toml").write_text(PROJECT)
    (folder / "reference.py").write_text(SIDE.format(change=""))
    (folder / "candidate.py").write_text(SIDE.format(change="model.layer3[2].bn2._epsilon = 1e-2"))
    done = subprocess.run([sys.executable, "-m", "paralign", "check", str(folder), "-q"], check=False, capture_output=True, text=True)
    if done.returncode != 1:
        raise SystemExit(f"the check ended with {done.returncode} instead of 1 (diverged):\n{done.stdout}{done.stderr}")
    return folder / "result" / "report.html"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", help="a report.html that is there (default: ResNet-50 is checked)")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("NOT RUN: there is no chromium here")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(options.page) if options.page else checked(Path(folder))
        print(f"{page.stat().st_size / 1e6:.2f} MB")
        measure(page.resolve().as_uri(), options.repeats)


def measure(page: str, repeats: int) -> None:
    """Print the least and the greatest time of each act."""
    browser = Browser()
    times: dict[str, list[float]] = {}
    for repeat in range(repeats):
        browser.open(page)
        times.setdefault("open", []).append(browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        for act, script in ACTS.items():
            times.setdefault(act, []).append(browser.run(TIMED.format(script=script)))
            browser.run("new Promise(done => setTimeout(done, 300))")
            if act == "scroll to the trees":
                browser.until("document.querySelectorAll('.tree summary').length > 0")
            if act == "scroll to the trees" and not repeat:
                print(browser.run(OPERATIONS), "operations of both sides")
    complaints = browser.complaints
    browser.close()
    for act, each in times.items():
        print(f"{act:36} {min(each):7.0f} to {max(each):5.0f} ms")
    print(f"complaints of the console: {len(complaints)}")


if __name__ == "__main__":
    main()
