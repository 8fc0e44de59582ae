"""Shape annotations, `Float[Tensor, "time batch features"]`: checked by jaxtyping in the tests, plain types elsewhere."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Bool, Complex, Float, Int
else:
    try:
        from jaxtyping import Bool, Complex, Float, Int
    except ImportError:

        class Float:
            def __class_getitem__(cls, item):
                return item[0]

        Bool = Complex = Int = Float

__all__ = ["Bool", "Complex", "Float", "Int"]
