"""One lens at several constant inputs, such as the contexts of a task: results by condition."""

from mnemoscope.lenses.conditions.lens import by_condition as by_condition
from mnemoscope.lenses.conditions.result import ByCondition as ByCondition
