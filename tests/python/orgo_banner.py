"""Import hook that lets the PyPI client `orgo` load on Pythons below 3.12.

One console string of the client needs Python 3.12. On older ones this hook replaces that string while the module loads, and nothing else.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


class BannerOnOldPython:
    def find_spec(self, name, path, target=None):
        if name != "orgo.prompt" or sys.version_info >= (3, 12):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        source = Path(spec.origin).read_text(encoding="utf-8")
        start = source.index('        logo = f"""')
        end = source.index('"""\n', start + 20) + 4
        patched = source[:start] + '        logo = "orgo"\n' + source[end:]

        class Loader:
            def create_module(self, spec):
                return None

            def exec_module(self, module):
                exec(compile(patched, spec.origin, "exec"), module.__dict__)

        return importlib.util.spec_from_loader(name, Loader(), origin=spec.origin)


sys.meta_path.insert(0, BannerOnOldPython())
