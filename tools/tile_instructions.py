"""Count the instructions in the inner loops of tiles: `objdump -dC OBJECT | python tools/tile_instructions.py fmla`.

For each loop with eight or more of the given instructions (a multiply-add of a vector), and no such loop inside: how
many instructions it has, how many of them are those, their ratio, and how many touch the stack, which are sums that had
no register.
"""

from __future__ import annotations

import re
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\t[0-9a-f ]+\t(.*)$")
JUMP = re.compile(r"^(?:b\.?\w*|cbn?z|tbn?z|j\w+)\s.*?\b([0-9a-f]+) <")


def main(multiply: str) -> None:
    """Print a line for each loop."""
    functions: dict[str, list[tuple[int, str]]] = {}
    code: list[tuple[int, str]] = []
    for line in sys.stdin:
        if found := FUNCTION.match(line):
            code = functions.setdefault(found[1], [])
        elif found := INSTRUCTION.match(line):
            code.append((int(found[1], 16), found[2]))
    print("instructions | multiply-adds | ratio | of the stack | function")
    for name, code in functions.items():
        loops = [
            (int(found[1], 16), at)
            for at, text in code
            if (found := JUMP.match(text)) and int(found[1], 16) < at
        ]
        bodies = {(start, end): [text for at, text in code if start <= at <= end] for start, end in loops}
        counts = {loop: sum(text.startswith(multiply) for text in body) for loop, body in bodies.items()}
        for (start, end), body in bodies.items():
            inner = [(a, b) for a, b in loops if (a, b) != (start, end) and start <= a and b <= end]
            count = counts[start, end]
            if count >= 8 and not any(counts[loop] for loop in inner):
                stack = sum("[sp" in text or "(%rsp" in text for text in body)
                short = re.sub(r"\(anonymous namespace\)::|qkv::kernels::\w+::", "", name)
                print(f"{len(body)} | {count} | {len(body) / count:.2f} | {stack} | {short[:100]}")


if __name__ == "__main__":
    main(sys.argv[1])
