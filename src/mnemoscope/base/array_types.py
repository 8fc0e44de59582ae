"""Shape annotations such as `Float[Tensor, "time batch features"]`; the tests check them.

Without jaxtyping they are plain types. A single dimension has a leading space, `" batch"`, so that no tool mistakes it
for the name of a type.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Bool, Complex, Float, Inexact, Int, Num
else:
    try:
        from jaxtyping import Bool, Complex, Float, Inexact, Int, Num
    except ImportError:

        class Float:  # noqa: D101
            def __class_getitem__(cls, item: tuple) -> type:
                return item[0]

        Bool = Complex = Inexact = Int = Num = Float

__all__ = ["Bool", "Complex", "Float", "Inexact", "Int", "Num"]
