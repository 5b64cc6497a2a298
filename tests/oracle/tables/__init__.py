"""The tables: every module here lists its configurations in CONFIGS."""

import importlib
import pkgutil

CONFIGS = []

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    CONFIGS += importlib.import_module("%s.%s" % (__name__, _module)).CONFIGS
