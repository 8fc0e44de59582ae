"""Principal components of condition averages, and how many dimensions they span."""

from mnemoscope.lenses.principal_axes.lens import principal_components as principal_components
from mnemoscope.lenses.principal_axes.result import PrincipalComponents as PrincipalComponents
