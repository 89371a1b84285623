"""A method has one meaning however it is written: text, class, table, or Method."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import enlist
from enlist import Method, selectors
from enlist.errors import EnlistError, InputError, UnknownNameError
from enlist.methods import parts_of, split
from enlist.selectors import BSFL, Oort

CLIENTS = enlist.Clients(num_examples=[10.0] * 6)


class Slowest(enlist.Selector):
    """Chooses the last ones."""

    def choose(self, request: enlist.Request) -> enlist.Choice:
        return request.pick(range(len(request.available) - request.k, len(request.available)))


@pytest.mark.parametrize(
    "given",
    [
        "bsfl:paper+alpha=5.0",
        Method("bsfl", preset="paper", settings={"alpha": 5.0}),
        BSFL.with_(alpha=5.0).with_preset("paper"),
        {"selector": "bsfl", "preset": "paper", "settings": {"alpha": 5.0}},
        {"name": "bsfl:paper", "settings": {"alpha": 5.0}},
    ],
)
def test_every_form_creates_the_same_selector(given: Any) -> None:
    selector = enlist.create(given, CLIENTS, seed=3)
    assert (type(selector), selector.settings.alpha, selector.preset) == (BSFL, 5.0, "paper")
    assert enlist.method(given).text == "bsfl:paper+alpha=5.0"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("oort", (None, "oort", {})),
        ("oort+penalty=1", (None, "oort", {"penalty": 1})),
        ("oort+penalty=1e+3+pacer=code", (None, "oort", {"penalty": 1000.0, "pacer": "code"})),
        ("oort+retire_after=none+round_up=true", (None, "oort", {"retire_after": None, "round_up": True})),
        ("mild Oort = oort:paper+penalty=1", ("mild Oort", "oort:paper", {"penalty": 1})),
        ("a=pkg.mine:Fast+x='b,c'", ("a", "pkg.mine:Fast", {"x": "b,c"})),
        ("cs-ucb-q+fractions=[0.5, 0.25]", (None, "cs-ucb-q", {"fractions": [0.5, 0.25]})),
    ],
)
def test_text(text: str, parts: Any) -> None:
    assert parts_of(text) == parts
    assert split(f"random, {text}") == ["random", text]


def test_the_text_of_a_method_reads_back() -> None:
    for text in ("oort+penalty=1.5+pacer=code", "bsfl:paper", "oort+retire_after=none", "a.b:C+x=[1,2]+y=true"):
        assert enlist.method(enlist.method(text).text) == enlist.method(text)
        assert enlist.method(text).text == text


@pytest.mark.parametrize("text", ["oort+penalty=1", "a=bsfl:paper+alpha=5", "pkg.mine:Fast+slope=-1.5"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_passes_it_on_as_it_is(text: str, shell: str) -> None:
    """zsh is not everywhere; what it would change is looked for in the text instead."""
    if shell == "bash":
        shown = subprocess.run(["bash", "-c", f"printf %s random,{text}"], capture_output=True, text=True, check=True)
        assert shown.stdout == f"random,{text}"
    assert not set(text) & set("{}[]()*?!$&;|<>~^#'\"\\` ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "names no method"),
        ("=oort", "names no method"),
        ("oort+penalty=1+penalty=2", "gives 'penalty' twice"),
        (3, "3 is not a method"),
        (dict, "not a subclass of enlist.Selector"),
        ({"settings": {}}, "names no selector"),
        ({"selector": "oort", "sets": {}}, "a method has no key called 'sets'. Did you mean 'settings'?"),
        ("oorf", "no selector is called 'oorf'. Did you mean 'oort'?"),
        ("oort+penalti=1", "has no parameter called 'penalti'. Did you mean 'penalty'?"),
        ("oort:papr", "has no preset called 'papr'. Did you mean 'paper'?"),
        ("nowhere:Thing", "there is no module 'nowhere'"),
        ("enlist.selectors.oort:Ort", "has no class 'Ort'. Did you mean 'Oort'?"),
        ("enlist.errors:InputError", "not a subclass of enlist.Selector"),
    ],
)
def test_what_is_wrong_is_said(given: Any, message: str) -> None:
    with pytest.raises(EnlistError, match=message.replace("(", r"\(").replace(".", r"\.")):
        enlist.create(given, CLIENTS)


def test_labels() -> None:
    assert enlist.method("oort+penalty=1").label == "oort+penalty=1"
    assert enlist.method(Slowest).label == "Slowest"
    assert enlist.method(Oort.with_(penalty=1.0)).label == "oort+penalty=1.0"
    assert Oort.with_(penalty=1.0).named("mild").label == "mild"
    for label in ("", " ", "x" * 201):
        with pytest.raises(InputError, match="a label is"):
            Method("oort", label=label)
    assert [each.label for each in selectors.methods({"a": "oort", "b": Oort})] == ["a", "b"]
    with pytest.raises(InputError, match="two methods are called 'oort'"):
        selectors.methods(["oort", Oort])


def test_a_class_without_a_name_saves_and_loads_as_itself(tmp_path: Path) -> None:
    selector = enlist.create(Slowest, CLIENTS, seed=2)
    assert selector.ask(k=2).clients.tolist() == [4, 5]
    selector.save(tmp_path / "state")
    assert Slowest.load(tmp_path / "state").round == 1
    with pytest.raises(InputError, match="a saved state never runs code"):
        enlist.load(tmp_path / "state")


def test_a_subclass_of_ours_is_not_taken_for_ours(tmp_path: Path) -> None:
    class Milder(Oort):
        pass

    assert enlist.method(Milder).name.endswith("Milder")
    enlist.create(Milder, CLIENTS).save(tmp_path / "state")
    with pytest.raises(EnlistError):
        enlist.load(tmp_path / "state")


def test_a_registered_class_has_its_name_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "_registered", {})

    class Own(Slowest):
        name = "own"

    assert enlist.register(Own) is Own
    assert "own" in enlist.names()
    enlist.create("own", CLIENTS).save(tmp_path / "state")
    assert isinstance(enlist.load(tmp_path / "state"), Own)
    assert enlist.method(Own).text == "own"
    for wrong in ("oort", "a:b", "", " x", "a,b"):
        with pytest.raises(InputError):
            enlist.register(type("Own", (Slowest,), {}), wrong)
    with pytest.raises(InputError):
        enlist.register(dict)  # type: ignore[type-var]


def test_a_module_of_the_current_folder(tmp_path: Path) -> None:
    source = (
        "import enlist\n\n\nclass First(enlist.Selector):\n    name = 'first'\n\n"
        "    def choose(self, request):\n        return request.pick(range(request.k))\n"
    )
    (tmp_path / "mine.py").write_text(source)
    code = (
        "import enlist\n"
        "print(enlist.create('mine:First', enlist.Clients(count=4)).ask(k=2).clients.tolist())\n"
        "print(enlist.method('mine:First').label)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout == "[0, 1]\nmine:First\n"


def test_a_file_with_the_name_of_a_selector_is_ambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "oort.py").write_text("")
    assert enlist.method("oort:paper").preset == "paper"
    with pytest.raises(InputError, match=r"'oort:Mine' is ambiguous"):
        enlist.method("oort:Mine")
    (tmp_path / "oort.py").unlink()
    with pytest.raises(UnknownNameError, match="no preset called 'Mine'"):
        enlist.create("oort:Mine", CLIENTS)


def test_mypy_accepts_the_examples_and_rejects_mistakes(tmp_path: Path) -> None:
    """One call, with the settings of the project (strict) and its cache, which `make test` has just filled."""
    root = Path(__file__).parents[1]
    page = (root / "docs" / "python.md").read_text(encoding="utf-8")
    own = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    files = {
        "page.py": "\n".join(own),
        "good.py": "import enlist\nfrom enlist.selectors import Oort, Random\n\n\n"
        "class Plain(enlist.Selector):\n    pass\n\n\n"
        "method = Oort.with_(penalty=1.0, pacer='code')\n"
        "selector: Oort = enlist.create(method, enlist.Clients(count=3), seed=1)\n"
        "state = selector.state.utility\nRandom.with_()\n",
        "name.py": "from enlist.selectors import Oort\n\nOort.with_(penalti=1)\n",
        "type.py": "from enlist.selectors import Oort\n\nOort.with_(penalty='high')\n",
        "none.py": "from enlist.selectors import Random\n\nRandom.with_(luck=1)\n",
        "own.py": own[0] + "\nLossPerSecond.with_(powr=2.0)\nLossPerSecond.with_(power='x')\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--config-file", str(root / "pyproject.toml")]
    names = [str(tmp_path / name) for name in files]
    found = subprocess.run([*command, *names], cwd=root, capture_output=True, text=True)
    errors = [line.rpartition("/")[2] for line in found.stdout.splitlines() if "error:" in line]
    assert len(errors) == 5, found.stdout + found.stderr
    for name, message in (
        ("name.py:3", 'Unexpected keyword argument "penalti"'),
        ("type.py:3", 'incompatible type "str"; expected "float"'),
        ("none.py:3", 'Unexpected keyword argument "luck"'),
        ("own.py:", 'Unexpected keyword argument "powr"'),
        ("own.py:", 'incompatible type "str"; expected "float"'),
    ):
        assert [line for line in errors if line.startswith(name) and message in line], found.stdout
