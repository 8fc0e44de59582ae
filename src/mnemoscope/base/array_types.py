"""Shape annotations, `Float[Tensor, "time batch features"]`: checked in the tests, plain types without jaxtyping.

A single dimension is written with a space before it, `" batch"`, so that no tool takes it for the name of a type.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Bool, Complex, Float, Inexact, Int
else:
    try:
        from jaxtyping import Bool, Complex, Float, Inexact, Int
    except ImportError:

        class Float:  # noqa: D101
            def __class_getitem__(cls, item: tuple) -> type:
                return item[0]

        Bool = Complex = Inexact = Int = Float

__all__ = ["Bool", "Complex", "Float", "Inexact", "Int"]
