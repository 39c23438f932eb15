"""What a framework offers, by inspection: one line a callable with its signature.

Run by itself in a side's interpreter: ``python signatures.py paddle paddle.nn …`` prints ``# paddle 3.3.1`` and then lines such as
``paddle.nn.Linear(in_features, out_features, weight_attr=None)``. Where a builtin tells no signature, the first line of its
documentation is taken; where that has none, the line ends in ``(...)``. What a decorator accepts beside the signature follows it:
``paddle.zeros(shape, dtype=None) ~ size *`` takes ``size=`` and several numbers in place of one list.
"""

import ast
import importlib
import inspect
import re
import sys
from typing import Any, Iterator, List, Optional, Set, Tuple

#: characters of a default that are kept: longer ones are objects whose text says nothing
_LONGEST = 40

#: keywords that operations written in C++ accept beside their own names for them, as their parser maps them
_BUILTIN = ("dim", "input", "other")

#: names of functions that decorators put around others
_WRAPPERS = ("wrapper", "wrapped_func", "_wrapper", "inner")

#: decorators around one another that are looked through
_LAYERS = 8

#: characters of a documentation that are looked through: overloads stand at its beginning
_HEAD = 1500


def lines(roots: List[str]) -> Iterator[str]:
    """Lines of all public callables of modules and classes.

    Args:
        roots: dotted names; what cannot be imported is left out, and said in a line that begins with ``!``.
    """
    top = roots[0].split(".")[0]
    try:
        package = importlib.import_module(top)
    except Exception as error:  # noqa: BLE001 - whatever a foreign package raises while it is imported
        yield "! {}: {}: {}".format(top, type(error).__name__, " ".join(str(error).split())[:200])
        return
    yield f"# {top} {getattr(package, '__version__', '')}"
    for root in roots:
        try:
            home = _home(root)
        except Exception as error:  # noqa: BLE001 - as above
            yield f"! {root}: {type(error).__name__}"
            continue
        for name, value in _members(home, top):
            yield f"{root}.{name}({_parameters(value, name)}){_accepted(value)}"


def _home(root: str) -> Any:
    try:
        return importlib.import_module(root)
    except ImportError:
        parent, _, name = root.rpartition(".")
        if not parent:
            raise
        return getattr(_home(parent), name)


def _members(home: Any, top: str) -> Iterator[Tuple[str, Any]]:
    public = getattr(home, "__all__", None)
    for name in sorted(dir(home)):
        if name.startswith("_"):
            continue
        if public is not None and name[0].isupper() and name not in public:
            continue  # types that a package only uses
        try:
            value = getattr(home, name)
        except Exception:  # noqa: BLE001, S112 - an attribute that cannot be read offers nothing
            continue
        if inspect.isclass(home):
            if callable(value) or (home.__name__ == "Tensor" and (inspect.isdatadescriptor(value) or isinstance(value, property))):
                yield name, value
        elif callable(value) and not inspect.ismodule(value) and _of(value, top):
            yield name, value


def _of(value: Any, top: str) -> bool:
    module = getattr(value, "__module__", None)
    return module is None or str(module).split(".")[0] in (top, "builtins") or "torch" in str(module)


def _parameters(value: Any, name: str) -> str:
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError, AttributeError):
        return _documented(value, name)
    kinds = [each.kind for each in signature.parameters.values()]
    if kinds and all(kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for kind in kinds):
        documented = _documented(value, name)
        if documented != "...":
            return documented
    return _written(list(signature.parameters.values()))


def _written(parameters: List[inspect.Parameter]) -> str:
    parts = []
    starred = False
    for each in parameters:
        if each.name == "self":
            continue
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            starred = True
            parts.append("*" + each.name)
            continue
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            parts.append("**" + each.name)
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        parts.append(each.name if each.default is inspect.Parameter.empty else f"{each.name}={_default(each.default)}")
    return ", ".join(parts)


def _default(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str, tuple, list)):
        text = repr(value)
        if len(text) <= _LONGEST and "<" not in text:
            return text
    return "..."


def _documented(value: Any, name: str) -> str:
    text = getattr(value, "__doc__", None)
    found = _first_signature(str(text), name) if text else None
    return "..." if found is None else found


def _accepted(value: Any) -> str:
    """Keywords that decorators of a callable accept beside its signature.

    ``*`` is among them where one gathers several arguments into a list.
    """
    found: Set[str] = set()
    if "generated" in str(getattr(value, "__module__", "")) and not getattr(value, "__wrapped__", None):
        found.update(_BUILTIN)
    target = value.__init__ if inspect.isclass(value) else value
    for _ in range(_LAYERS):
        inner = getattr(target, "__wrapped__", None)
        if inner is None:
            break
        found.update(_of_wrapper(target))
        target = inner
    return (" ~ " + " ".join(sorted(found, key=lambda word: (word == "*", word)))) if found else ""


def _of_wrapper(wrapper: Any) -> Iterator[str]:
    code = getattr(wrapper, "__code__", None)
    if code is None or getattr(code, "co_name", "") not in _WRAPPERS:
        return
    codes = [code]
    for cell in getattr(wrapper, "__closure__", None) or ():
        content = cell.cell_contents
        if type(content).__name__.startswith("Forbid"):
            return
        if isinstance(content, (list, tuple)):
            yield from (word for word in content if isinstance(word, str) and word.isidentifier())
        yield from getattr(content, "alias_mapping", {})
        process = getattr(type(content), "process", None)
        if process is not None:
            codes.append(process.__code__)
    for each in codes:
        yield from (word for word in each.co_consts if isinstance(word, str) and word.isidentifier())
        if "len" in each.co_names:
            yield "*"


def _first_signature(text: str, name: str) -> Optional[str]:
    """The longest of the signatures that a documentation begins with.

    Overloads are listed one below another.
    """
    best = None
    for start in re.finditer(r"(?:^|[\s.])" + re.escape(name) + r"\(", text[:_HEAD]):
        inside = _inside(text, start.end())
        found = None if inside is None else _cleaned(inside)
        if found is not None and (best is None or len(found) > len(best)):
            best = found
    return best


def _inside(text: str, start: int) -> Optional[str]:
    depth = 1
    for end in range(start, min(len(text), start + _HEAD)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[end], 0)
        if depth == 0:
            return " ".join(text[start:end].split())
    return None


def _cleaned(inside: str) -> Optional[str]:
    """A documented signature as Python would write it; None for prose in brackets."""
    parts = []  # type: List[str]
    starred = False
    for part in re.split(r",\s*(?![^(\[]*[)\]])", inside.replace("\\", "")):
        found = re.match(r"^(\*{0,2})([A-Za-z_]\w*)?\s*(?:=\s*(.+))?$", part.strip())
        if found is None or not (found.group(1) or found.group(2)):
            if part.strip():
                return None
            continue
        stars, name, default = found.group(1), found.group(2) or "", found.group(3)
        if stars == "*":
            if not starred:
                parts.append(stars + name)
            starred = True
        elif name != "self":
            parts.append(stars + name + ("" if default is None else "=" + _literal(default)))
    return ", ".join(parts)


def _literal(text: str) -> str:
    try:
        return _default(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return "..."


if __name__ == "__main__":
    for line in lines(sys.argv[1:]):
        sys.stdout.write(line + "\n")
