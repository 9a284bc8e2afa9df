"""Write the golden payloads anew: `python tests/codecs/make_golden.py`. Only for a change of the format on purpose."""

import hashlib
import json

from golden_cases import CASES, FOLDER, HASHES, encoded

from adagq.codecs import decode


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for stale in FOLDER.glob("*.bin"):
        if stale.stem not in CASES:
            stale.unlink()
    hashes = {}
    for name in CASES:
        payload = encoded(name)
        path = FOLDER / f"{name}.bin"
        verdict = "new" if not path.exists() else "same" if path.read_bytes() == payload else "changed"
        path.write_bytes(payload)
        hashes[name] = hashlib.sha256(decode(payload).tobytes()).hexdigest()
        print(f"{verdict:8} {len(payload):6} bytes  {name}")
    HASHES.write_text(json.dumps(hashes, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
