"""Say what pip-audit's JSON holds, and for how many packages it could look anything up at all.

Exit code 1 where a package has known flaws, or where no package could be audited.
"""

from __future__ import annotations

import json
import sys

if __name__ == "__main__":
    text = sys.stdin.read()
    packages = json.loads(text)["dependencies"] if text.strip() else []
    audited = [package for package in packages if "vulns" in package]
    broken = [
        f"{package['name']} {package['version']}: {', '.join(v['id'] for v in package['vulns'])}"
        for package in audited
        if package["vulns"]
    ]
    print(f"audited {len(audited)} of {len(packages)} packages; {len(broken)} have known flaws")
    print("\n".join(broken), end="\n" if broken else "")
    if len(audited) < len(packages) or not packages:
        print("NOT AUDITED: the others; no database that knows them could be reached from here")
    sys.exit(bool(broken) or not audited)
