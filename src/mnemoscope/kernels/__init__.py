"""Fast scans: recurrences over a whole sequence as one operation."""

from mnemoscope.kernels.activation import ACTIVATIONS as ACTIVATIONS, Activation as Activation
from mnemoscope.kernels.affine import affine_scan as affine_scan, affine_step as affine_step
from mnemoscope.kernels.attention_scans import no_attention_scan as no_attention_scan
from mnemoscope.kernels.elementwise import (
    elementwise_limit as elementwise_limit,
    elementwise_scan as elementwise_scan,
    no_elementwise_scan as no_elementwise_scan,
)
from mnemoscope.kernels.full_attention import full_attention_scan as full_attention_scan
from mnemoscope.kernels.linear import (
    diagonal_scan as diagonal_scan,
    linear_scan as linear_scan,
    linear_scan_pays as linear_scan_pays,
)
from mnemoscope.kernels.screened import no_screened_scan as no_screened_scan, screened_scan as screened_scan
from mnemoscope.kernels.sparse_attention import (
    no_sparse_attention_scan as no_sparse_attention_scan,
    sparse_attention_scan as sparse_attention_scan,
)
