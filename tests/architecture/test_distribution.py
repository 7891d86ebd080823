"""What is shipped: three packages with their Lua files and the page, and nothing else; each name has one owner."""

import importlib.metadata
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = {"pipeline", "ledger", "workers"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel built from the checkout, without a registry."""
    out = tmp_path_factory.mktemp("wheel")
    program = Path(sys.executable).with_name("hatchling")
    subprocess.run([str(program), "build", "-t", "wheel", "-d", str(out)], check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == PACKAGES


def test_the_wheel_holds_every_file_of_the_packages(wheel: zipfile.ZipFile) -> None:
    shipped = set(wheel.namelist())
    ours = {
        path.as_posix()
        for package in PACKAGES
        for path in Path(package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours - shipped == set()
    assert any(name.startswith("ledger/lua/") and name.endswith(".lua") for name in shipped)
    assert "workers/gateway/page.html" in shipped


def test_the_wheel_brings_one_command(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert wheel.read(name).decode().strip() == "[console_scripts]\nfoldline = workers.cli:main"


def test_no_other_distribution_owns_our_names() -> None:
    owners = importlib.metadata.packages_distributions()
    assert {name: owners.get(name, []) for name in PACKAGES if set(owners.get(name, [])) - {"foldline"}} == {}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_our_names_are_packages_of_this_checkout(package: str) -> None:
    module = __import__(package)
    assert module.__file__ == str(Path(package, "__init__.py").absolute())


def test_the_lock_names_no_registry() -> None:
    lock = Path("requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    assert not any(line.lstrip().startswith(("--index", "--extra-index", "--find-links")) for line in lock.splitlines())


def test_every_locked_package_has_hashes() -> None:
    lock = Path("requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    pinned = [line for line in lock.splitlines() if line and not line.startswith("#")]
    assert [line.split()[0] for line in pinned if "==" not in line or "--hash=sha256:" not in line] == []
