"""The package ``diskcache`` of programs that ``python -m tuckbox.compat.diskcache`` runs.

The folder above is on the path of such a program and of its child processes, and of no other. The
modules here have the names of DiskCache's, and what programs import from them.
"""

import tuckbox.compat.diskcache as _drop_in
from tuckbox.compat.diskcache import __all__ as __all__
from tuckbox.compat.diskcache import __getattr__ as __getattr__
from tuckbox.compat.diskcache import __version__ as __version__

# Not `import *`, which would import Django.
globals().update({name: vars(_drop_in)[name] for name in __all__ if name in vars(_drop_in)})
