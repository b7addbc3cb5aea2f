"""What a sample is, its type, range and letters, and what a pixel is, is said by modalities alone: no other file tests
for it."""

import ast
from pathlib import Path

import viewsmith

ROOT = Path(viewsmith.__file__).parent

BYTES = {"core/tensors.py": 1}  # for a checksum


def mentions(tree):
    """Mentions of uint8 and 255, and the letters of DNA in code, without docstrings."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    documents |= {  # sentences below options
        id(after.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for after in node.body
        if isinstance(after, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "uint8":
            yield node
        elif isinstance(node, ast.Constant) and id(node) not in documents:
            value = node.value
            text = isinstance(value, str | bytes) and str(value)
            if (isinstance(value, int) and value == 255) or (text and ("uint8" in text or "ACGT" in text)):
                yield node


def test_only_modalities_know_types_of_samples():
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith("modalities/"):
            text = file.read_text()
            count = (
                len(list(mentions(ast.parse(text)))) if any(part in text for part in ("uint8", "255", "ACGT")) else 0
            )
            found |= {name: count} if count else {}
    assert found == BYTES


def test_the_check_finds_them():
    code = """'uint8 in a docstring'
x = np.uint8, torch.uint8, 255, "ACGT", b"ACGTN", "x.astype('uint8')", 254, "uint16"
class A:
    y: int = 1
    "of uint8"
"""
    assert len(list(mentions(ast.parse(code)))) == 6
