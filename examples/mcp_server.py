"""A small MCP server over stdio: search notes, calculate, read a file, send a message.

    python examples/mcp_server.py [FOLDER]

Everything happens inside FOLDER, or where it was started: notes are *.txt files there, messages go
to outbox.jsonl. It ends when its standard input does.
With `--fickle` it has a fifth tool that withdraws another one, so that a client can be tried with a
tool that vanishes.
"""

import argparse
import ast
import json
import operator
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def value_of(node: ast.AST) -> float:
    """Work out an expression of numbers, + - * / and brackets; nothing else is run."""
    if isinstance(node, ast.Expression):
        return value_of(node.body)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return float(OPERATORS[type(node.op)](value_of(node.left), value_of(node.right)))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return float(OPERATORS[type(node.op)](value_of(node.operand)))
    raise ValueError("only numbers, + - * / and brackets")


def build(folder: Path, is_fickle=False):
    """Return the server of one folder."""
    server = MCPServer("notes")

    def search_notes(words: str) -> list[str]:
        """Search all notes for words and return the lines that have any of them."""
        wanted = {word.lower() for word in words.split()}
        return [
            f"{path.name}: {line}"
            for path in sorted(folder.glob("*.txt"))
            for line in path.read_text(encoding="utf-8").splitlines()
            if wanted & set(line.lower().replace(".", " ").replace(",", " ").split())
        ]

    def calculate(expression: str) -> float:
        """Calculate an arithmetic expression: add, subtract, multiply or divide numbers."""
        try:
            return value_of(ast.parse(expression, mode="eval"))
        except (ArithmeticError, SyntaxError, ValueError) as error:
            raise ToolError(f"'{expression}' cannot be calculated: {error}") from error

    def read_file(name: str) -> str:
        """Read one whole file of the folder by its name and return its text."""
        path = (folder / name).resolve()
        if folder.resolve() not in path.parents:
            raise ToolError(f"{name} is not in the folder")
        if path.suffix == ".slow":
            time.sleep(5.0)
        if not path.is_file():
            raise ToolError(f"there is no file {name}")
        return path.read_text(encoding="utf-8")

    def send_message(to: str, text: str) -> str:
        """Send a message with a text to a person by mail address."""
        with (folder / "outbox.jsonl").open("a", encoding="utf-8") as outbox:
            outbox.write(json.dumps({"to": to, "text": text}) + "\n")
        return f"sent to {to}"

    def withdraw(name: str) -> str:
        """Withdraw a tool from this server."""
        server.remove_tool(name)
        return f"withdrew {name}"

    reads = ToolAnnotations(read_only_hint=True)
    for tool in (search_notes, calculate, read_file):
        server.tool(annotations=reads, structured_output=False)(tool)
    server.tool(structured_output=False)(send_message)
    if is_fickle:
        server.tool(structured_output=False)(withdraw)
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--fickle", action="store_true")
    asked = parser.parse_args()
    build(asked.folder, asked.fickle).run("stdio")
