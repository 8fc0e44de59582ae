"""One suite over every recurrent matrix: what it claims must hold after training, and its gradient must be right."""

from inspect import unwrap  # of the check of types, which refuses before the function can

import pytest
import torch

from mnemoscope import fisher_memory, registry
from mnemoscope.cells import GORU, Elman, Model
from mnemoscope.cells.matrix import MatrixRNN
from mnemoscope.connectivity import (
    INITIALISERS,
    ORTHOGONAL,
    SVD,
    Cayley,
    Connectivity,
    Dense,
    Exponential,
    Fourier,
    Givens,
    Householder,
    KnownSpectrum,
    LowRank,
    Normal,
    Schur,
    Unitary,
    orthogonal,
    skew_exponential,
)
from mnemoscope.connectivity.connectivity import formed_once
from mnemoscope.networks import eurnn, exprnn, irnn, matched_size, nnrnn, normal_rnn, ornn, rnn
from mnemoscope.networks.matrix import matrix_rnn
from tests.slow import representatives, slow

N = 8
MATRICES = {
    **{f"dense-{init}": (lambda init=init: Dense(N, init), N * N) for init in INITIALISERS},
    "dense-soft": (lambda: Dense(N, "glorot", soft_orthogonality=0.1), N * N),
    **{
        f"exponential-{init}": (lambda init=init: Exponential(N, init), N * (N - 1) // 2)
        for init in Exponential.initialisers
    },
    "exponential-complex": (lambda: Exponential(N, complex=True), N * N),
    "exponential-complex-random": (lambda: Exponential(N, "random", complex=True), N * N),
    "exponential-dynamic": (lambda: Exponential(N, "random", dynamic=True), N * (N - 1) // 2),
    **{f"cayley-{init}": (lambda init=init: Cayley(N, init=init), N * (N - 1) // 2) for init in Cayley.initialisers},
    "cayley-none-negative": (lambda: Cayley(N, negative=0), N * (N - 1) // 2),
    "cayley-all-negative": (lambda: Cayley(N, negative=N), N * (N - 1) // 2),
    "cayley-complex": (lambda: Cayley(N, complex=True), N * N + N),
    "cayley-complex-dynamic": (lambda: Cayley(N, init="random", complex=True, dynamic=True), N * N),
    "householder-3": (lambda: Householder(N, 3), 3 * (2 * N - 2) // 2),
    "householder-all": (lambda: Householder(N, N), N * (N + 1) // 2),
    **{
        f"householder-{init}": (lambda init=init: Householder(N, 4, init), 4 * (2 * N - 3) // 2)
        for init in Householder.initialisers
    },
    **{
        f"givens-{init}": (lambda init=init: Givens(N, 2, init=init), 2 * (N - 1) + N)
        for init in Givens.initialisers
    },
    "givens-all": (lambda: Givens(N, N), N * N),
    "givens-real": (lambda: Givens(N, N, complex=False), N * (N - 1) // 2),
    "givens-fft": (lambda: Givens(N, style="fft"), 3 * N + N),
    "givens-fft-real": (lambda: Givens(N, style="fft", complex=False), 3 * N // 2),
    "fourier": (lambda: Fourier(N), 7 * N),
    "low-rank": (lambda: LowRank(N, 3), 6 * N),
    "low-rank-random": (lambda: LowRank(N, 2, gain=0.5), 4 * N),
    "singular": (lambda: SVD(N, 0.2), N * N),
    "singular-no-margin": (lambda: SVD(N, 0), N * (N - 1)),
    **{
        f"schur-{basis}": (lambda basis=basis: Schur(N, basis, "random", decay=0.1), None) for basis in ORTHOGONAL
    },
    "schur": (lambda: Schur(N), N * (N - 1) // 2 + N * (N - 2) // 2 + N),
    "schur-clamped": (lambda: Schur(N, clamp=0.05), N * (N - 1) // 2 + N * (N - 2) // 2 + N),
    "schur-fixed-modulus": (lambda: Schur(N, modulus=0.958, clamp=0), N * (N - 1) // 2 + N * (N - 2) // 2 + N // 2),
    "schur-within-pairs": (lambda: Schur(N, within_pairs=True), N * (N - 1) + N),
    "schur-odd": (lambda: Schur(7), 7 * 6 // 2 + (7 * 6 // 2 - 3) + 3 + 4),
    **{f"normal-{basis}": (lambda basis=basis: Normal(N, basis), None) for basis in ORTHOGONAL},
    "normal-henaff": (lambda: Normal(N, init=None), N * (N - 1) // 2 + N),
    "normal-odd": (lambda: Normal(7, modulus=0.9, modulus_penalty=0.1), 7 * 6 // 2 + 3 + 4),
    "normal-real": (lambda: Normal(N, real=4), N * (N - 1) // 2 + 2 + 2 + 4),
    "normal-symmetric": (lambda: Normal(N, real=N), N * (N - 1) // 2 + N),
    "normal-negative": (lambda: Normal(N, real=2, negative=2, clamp=0.05), N * (N - 1) // 2 + 3 + 3 + 2),
    "normal-one-number": (lambda: Normal(1), 1),
}  # fmt: skip


@pytest.fixture(params=MATRICES)
def matrix(request) -> Connectivity:
    return MATRICES[request.param][0]()


def learned(module):
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def trained(matrix, steps=100):
    """Train towards another matrix, far from the initial one."""
    matrix = matrix.double()
    optimiser = torch.optim.RMSprop(learned(matrix), lr=0.02)
    matrix.attach_to(optimiser)
    goal = torch.randn(matrix.size, matrix.size, dtype=matrix.dtype)
    for _ in range(steps):
        optimiser.zero_grad()
        penalty = matrix.penalty()
        loss = (matrix() - goal).abs().square().sum() + (0 if penalty is None else penalty)
        loss.backward()
        optimiser.step()
    return matrix


def assert_same_numbers(found, expected, bound):
    """Compare two spectra as sets of complex numbers."""
    distance = (found[:, None] - expected).abs()
    for row in range(len(found)):
        nearest = distance[row].argmin()
        assert distance[row, nearest] < bound, (found, expected)
        distance[:, nearest] = torch.inf


@representatives("dense-uniform-40", "exponential-dynamic-40")
@pytest.mark.parametrize("steps", [40, *slow(0, 100)])
def test_the_claimed_spectrum_is_that_of_the_matrix(matrix, steps):
    before = matrix().detach().double() if not matrix.complex else matrix().detach().to(torch.complex128)
    matrix = trained(matrix, steps)
    with torch.no_grad():
        V, claim = matrix(), matrix.spectrum()
    if steps:
        assert (V - before).abs().max() > 0.1  # it has learned
    if claim.eigenvalues is not None:
        assert_same_numbers(torch.linalg.eigvals(V), claim.eigenvalues, 1e-10)
    if claim.singular_values is not None:
        found = torch.linalg.svdvals(V)
        torch.testing.assert_close(found, claim.singular_values.sort(descending=True)[0], rtol=0, atol=1e-10)


def test_each_matrix_knows_the_documented_part_of_its_spectrum():
    assert Dense(4).spectrum() == KnownSpectrum(None, None)
    assert Schur(4, within_pairs=True).spectrum() == KnownSpectrum(None, None)
    for kind in (Exponential(4), Exponential(4, complex=True), Cayley(4, negative=0), Schur(4), Normal(4)):
        assert kind.spectrum().eigenvalues is not None
    for kind in (Exponential(4), Cayley(4), Givens(4), Householder(4), Fourier(4), SVD(4), Normal(4)):
        assert kind.spectrum().singular_values is not None


def test_the_gradient(matrix):
    matrix = trained(matrix, 3)
    parameters = learned(matrix)
    if getattr(matrix, "clamp", None):  # inside its margin: on the edge there is a kink
        matrix.gamma.data.fill_(matrix.modulus)

    def value(*given):
        names = [name for name, parameter in matrix.named_parameters() if parameter.requires_grad]
        V = torch.func.functional_call(matrix, dict(zip(names, given, strict=True)), ())
        return torch.view_as_real(V) if V.is_complex() else V

    assert torch.autograd.gradcheck(value, parameters, fast_mode=True)


def test_the_number_of_parameters(request, matrix):
    name = request.node.callspec.params["matrix"]
    expected = MATRICES[name][1]
    if expected is not None:
        assert sum(parameter.numel() for parameter in learned(matrix)) == expected


def test_state_dict_round_trip(request, matrix):
    matrix = trained(matrix, 2)
    other = MATRICES[request.node.callspec.params["matrix"]][0]().double()
    other.load_state_dict(matrix.state_dict())
    assert torch.equal(matrix(), other())
    assert all(not value.is_complex() for value in matrix.state_dict().values())


def test_all_parameters_get_a_gradient(matrix):
    matrix().abs().square().mul(torch.rand(matrix.size, matrix.size)).sum().backward()
    for name, parameter in matrix.named_parameters():
        assert parameter.grad is not None or not parameter.requires_grad, name


def test_orthogonal_parameters_are_those_of_orthogonal_matrices(matrix):
    names = {id(parameter): name for name, parameter in matrix.named_parameters()}
    found = {names[id(parameter)] for parameter in matrix.orthogonal_parameters()}
    if isinstance(matrix, Unitary):
        assert found == set(names.values())
    elif isinstance(matrix, Dense | LowRank):
        assert not found
    else:
        assert found == {name for name in names.values() if name.startswith(("basis.", "left.", "right."))}


def test_under_autocast_the_matrix_keeps_its_accuracy(matrix):
    with torch.autocast("cpu", torch.bfloat16):
        V = matrix()
    assert V.dtype == matrix.dtype
    torch.testing.assert_close(V, matrix(), rtol=0, atol=0)


# --- each kind --------------------------------------------------------------------------------------------------------


@representatives("1000000.0-dtype1")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0, 1e6])
def test_the_exponential(dtype, size):
    A = torch.randn(20, 20, dtype=dtype)
    A = size * (A - A.mH) / 20**0.5
    wide = torch.complex128 if dtype.is_complex else torch.float64
    rounding = torch.finfo(dtype).eps
    X = skew_exponential(A)
    if size < 1e6:  # an angle of millions is not known to rounding in the first place
        assert (X.to(wide) - torch.matrix_exp(A.to(wide))).abs().max() < 20 * (1 + size) * rounding
    assert (X.mH @ X - torch.eye(20)).abs().max() < 10 * rounding  # however large A is
    if dtype in (torch.float64, torch.complex128) and size == 1:
        half = A.triu().requires_grad_()
        assert torch.autograd.gradcheck(lambda half: skew_exponential(half - half.mH), half, fast_mode=True)
        assert torch.autograd.gradgradcheck(lambda half: skew_exponential(half - half.mH), half, fast_mode=True)


def test_the_exponential_s_gradient_is_torch_s():
    A = torch.randn(50, 50, dtype=torch.float64)
    A = (A - A.mT).requires_grad_()
    g = torch.randn(50, 50, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(f(A), A, g)[0] for f in (skew_exponential, torch.matrix_exp))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_cayley_is_its_formula():
    matrix = Cayley(5, negative=2).double()
    A = matrix.skew()
    torch.testing.assert_close(A, -A.mT)
    eye = torch.eye(5, dtype=torch.float64)
    D = torch.diag(torch.tensor([1.0, 1, 1, -1, -1], dtype=torch.float64))
    torch.testing.assert_close(matrix(), torch.linalg.inv(eye + A) @ (eye - A) @ D)


def test_householder_is_a_product_of_reflections():
    matrix = Householder(5, 4).double()
    Y = torch.zeros(5, 4, dtype=torch.float64)
    Y[tuple(torch.tril_indices(5, 4))] = matrix.vectors.detach()
    product = torch.eye(5, dtype=torch.float64)
    for u in Y.T:
        product = product @ (torch.eye(5) - 2 * torch.outer(u, u) / (u @ u))
    torch.testing.assert_close(matrix(), product)
    torch.testing.assert_close(Householder(6, 4, "identity")(), torch.eye(6))


@pytest.mark.parametrize("options", [{"layers": 3}, {"style": "fft"}, {"layers": 8}])
def test_givens_is_a_product_of_rotations(options):
    matrix = Givens(8, **options).double()
    product = torch.eye(8, dtype=torch.complex128)
    fft = options.get("style") == "fft"
    number = 0
    for layer in range(3 if fft else options["layers"]):
        F = torch.eye(8, dtype=torch.complex128)
        apart = 2**layer if fft else 1
        firsts = [i for i in range(8) if not i & apart] if fft else range(layer % 2, 7, 2)
        for i in firsts:
            theta, phi = matrix.angles[number].detach(), matrix.phases[number].detach()
            turn = torch.exp(1j * phi)
            F[i, i], F[i, i + apart] = turn * theta.cos(), -turn * theta.sin()
            F[i + apart, i], F[i + apart, i + apart] = theta.sin().to(F), theta.cos().to(F)
            number += 1
        product = product @ F
    product = product @ torch.diag(torch.exp(1j * matrix.diagonal.detach()))
    assert number == len(matrix.angles)
    torch.testing.assert_close(matrix().detach(), product)


def test_fourier_is_its_formula():
    matrix = Fourier(6).double()
    D1, D2, D3 = (torch.diag(torch.exp(1j * phase)) for phase in matrix.phases.detach())
    R1, R2 = (
        torch.eye(6) - 2 * torch.outer(v, v.conj()) / v.abs().square().sum()
        for v in torch.view_as_complex(matrix.reflections.detach())
    )
    k = torch.arange(6, dtype=torch.float64)
    F = torch.exp(-2j * torch.pi * torch.outer(k, k) / 6) / 6**0.5
    Pi = torch.eye(6, dtype=torch.complex128)[matrix.permutation]
    torch.testing.assert_close(matrix().detach(), D3 @ R2 @ F.mH @ D2 @ Pi @ R1 @ F @ D1)


def test_schur_is_its_formula():
    matrix = trained(Schur(6, init="random"), 20)
    form, P = matrix.schur_form().detach(), matrix.basis().detach()
    for i in range(3):
        gamma, theta = matrix.gamma[i].detach(), matrix.theta[i].detach()
        block = gamma * torch.tensor([[theta.cos(), -theta.sin()], [theta.sin(), theta.cos()]])
        torch.testing.assert_close(form[2 * i : 2 * i + 2, 2 * i : 2 * i + 2], block)
        assert not form[: 2 * i, 2 * i :].any()
        assert form[2 * i + 2 :, 2 * i].all()
    torch.testing.assert_close(matrix().detach(), P @ form @ P.T)
    expected = 1e-4 * (matrix.gamma - 1).square().sum()
    torch.testing.assert_close(matrix.penalty(), expected)
    decayed = Schur(6, decay=2.0)
    with torch.no_grad():
        decayed.T.fill_(3.0)
    assert decayed.penalty().item() == pytest.approx(9 * decayed.T.numel())


def commutator(V):
    return torch.linalg.matrix_norm(V @ V.mT - V.mT @ V)


NORMAL = [name for name in MATRICES if name.startswith("normal")]


@representatives("0-normal-exponential", "100-normal-one-number")
@pytest.mark.parametrize("name", NORMAL)
@pytest.mark.parametrize("steps", [0, 100])
def test_a_normal_matrix_stays_normal(name, steps):
    V = trained(MATRICES[name][0](), steps)().detach()
    assert commutator(V) < 1e-14 * V.shape[0] * torch.linalg.matrix_norm(V).square()  # rounding of two products
    if name == "normal-symmetric":
        torch.testing.assert_close(V, V.mT, rtol=0, atol=1e-13)


def test_a_free_matrix_that_starts_normal_does_not_stay_normal():
    for free in (Dense(8, "orthogonal"), Schur(8)):
        assert commutator(free()) < 1e-5
        assert commutator(trained(free)().detach()) > 0.1


def test_normal_is_its_formula():
    matrix = trained(Normal(7, real=3, negative=2, modulus_penalty=0.5), 20)
    D, P = torch.zeros(7, 7, dtype=torch.float64), matrix.basis().detach()
    for i in range(2):
        gamma, theta = matrix.gamma[i].detach(), matrix.theta[i].detach()
        D[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = gamma * torch.tensor(
            [[theta.cos(), -theta.sin()], [theta.sin(), theta.cos()]]
        )
    for i, sign in enumerate([1, -1, -1]):
        D[4 + i, 4 + i] = sign * matrix.gamma[2 + i].detach()
    torch.testing.assert_close(matrix.schur_form().detach(), D, rtol=0, atol=1e-15)
    torch.testing.assert_close(matrix().detach(), P @ D @ P.T, rtol=0, atol=1e-14)
    torch.testing.assert_close(matrix.penalty(), 0.5 * (matrix.gamma - 1).square().sum())
    assert Normal(4).penalty() is None


def test_any_normal_matrix_can_be_learned():
    """A goal that is normal, with eigenvalues on both sides of 0 and beyond the unit circle, is reached."""
    torch.manual_seed(0)
    P = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0]
    D = torch.block_diag(torch.tensor([[0.3, -1.2], [1.2, 0.3]]), *torch.tensor([[1.5], [-0.7], [0.4]])).double()
    goal = P @ D @ P.T
    matrix = Normal(5, real=3, negative=1).double()
    optimiser = torch.optim.LBFGS(matrix.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        off = (matrix() - goal).square().sum()
        off.backward()
        return off

    optimiser.step(loss)
    torch.testing.assert_close(matrix().detach(), goal, rtol=0, atol=1e-3)


def test_the_fisher_memory_of_a_normal_network_is_the_closed_form():
    """Ganguli et al. 2008: the modes are independent, `J(k) = sum_j (1 - p_j) p_j^k |b_j|^2` with `p = |lambda|^2`.

    No information is lost: `sum_k J(k) = |w|^2`.
    """
    cell = normal_rnn(1, 7, "linear", modulus=0.9, real=3).double()
    with torch.no_grad():
        cell.connectivity.gamma.uniform_(0.5, 0.95)
    memory = fisher_memory(cell, lags=40)
    w = cell.drive.weight.detach()[:, 0]
    eigenvalues, vectors = torch.linalg.eig(cell.connectivity().detach())  # unit vectors, all moduli are different
    pairs, single = cell.connectivity.gamma.detach().split((2, 3))
    assert_same_numbers(eigenvalues.abs(), torch.cat([pairs, pairs, single]), 1e-12)
    p, b = eigenvalues.abs().square(), (vectors.mH @ w.to(vectors)).abs().square()
    expected = torch.stack([((1 - p) * p**k * b).sum() for k in range(40)])
    torch.testing.assert_close(memory.curve, expected, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(memory.total, w.square().sum(), rtol=1e-10, atol=0)


def test_a_matrix_network_of_normal_matrices_loses_nothing_after_learning():
    """The total is `|W|^2`, unlike that of learned unconstrained matrices."""
    totals = {}
    for name, rows, columns in (
        ("normal", Normal(4, modulus=0.8, clamp=0.1), Normal(3, modulus=0.9, clamp=0.05, real=3)),
        ("schur", Schur(4, modulus=0.8, clamp=0.1), Schur(3, modulus=0.9, clamp=0.05)),
    ):
        cell = MatrixRNN((1, 1), (4, 3), "linear", trained(rows), trained(columns)).double()
        memory = fisher_memory(cell)
        assert (memory.route == "eigenbases of a normal network") is (name == "normal")
        part = cell.drive.maps[0]
        totals[name] = memory.total / (part.U.T @ part.V).square().sum().detach()
    assert totals["normal"].item() == pytest.approx(1, abs=1e-12)
    assert totals["schur"].item() < 0.99


def test_schur_as_it_was_released_has_other_moduli():
    free, within = (trained(Schur(6, clamp=0.0, within_pairs=where), 50) for where in (False, True))
    moduli = [torch.linalg.eigvals(matrix().detach()).abs() for matrix in (free, within)]
    torch.testing.assert_close(moduli[0], torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-10)
    assert (moduli[1] - 1).abs().max() > 1e-3


def test_clamped_moduli_stay_in_their_margin_and_find_back():
    matrix = trained(Schur(6, clamp=0.05))
    assert ((matrix.moduli() - 1).abs() <= 0.05 + 1e-12).all()
    assert (matrix.gamma - 1).abs().max() > 0.04
    optimiser = torch.optim.SGD(matrix.parameters(), lr=0.01)
    matrix.attach_to(optimiser)
    for goal in (10.0, 0.0):
        for _ in range(100):
            optimiser.zero_grad()
            (matrix.moduli() - goal).square().sum().backward()
            optimiser.step()
        torch.testing.assert_close(matrix.moduli(), torch.full_like(matrix.gamma, 1.05 if goal else 0.95))


def test_a_cayley_matrix_is_loaded_with_its_signs():
    one, other = Cayley(4, negative=2), Cayley(4, negative=0)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(), other())
    assert other.spectrum().eigenvalues is None


def test_a_moving_base_keeps_its_determinant():
    for negative, expected in ((0, 1), (1, -1)):
        matrix = trained(Cayley(4, negative=negative, dynamic=True), 20)
        assert torch.linalg.det(matrix()).item() == pytest.approx(expected)


@pytest.mark.parametrize(
    "kind", ["exponential", "householder", "givens"]
)  # not cayley, whose D turns half of the units around
@pytest.mark.parametrize("init", ["henaff", "cayley"])
def test_every_kind_starts_with_rotations_of_pairs(kind, init):
    V = orthogonal(kind, 6, init)().detach()
    for i in range(0, 6, 2):
        block = V[i : i + 2, i : i + 2]
        torch.testing.assert_close(block[0, 0], block[1, 1])
        torch.testing.assert_close(block[0, 1], -block[1, 0])
        torch.testing.assert_close(torch.linalg.det(block), torch.tensor(1.0))


@pytest.mark.parametrize("make", [lambda: Schur(8, init="henaff"), lambda: Schur(8, init="cayley")])
def test_a_basis_of_blocks_commutes_with_the_rotations(make):
    """Then V starts as Lambda itself."""
    matrix = make()
    torch.testing.assert_close(matrix(), matrix.schur_form(), rtol=0, atol=1e-6)


def test_a_moving_base_takes_the_step_of_wisdom_et_al():
    """With plain gradient descent: V <- (I + s/2 B)^-1 (I - s/2 B) V, B = G V^H - V G^H (Eq 6)."""
    matrix = Cayley(5, init="random", complex=True, dynamic=True).double()
    matrix.after_step()
    V, goal = matrix().detach(), torch.randn(5, 5, dtype=torch.complex128)
    rate = 0.01
    optimiser = torch.optim.SGD(matrix.parameters(), lr=rate)
    matrix.attach_to(optimiser)
    (matrix() - goal).abs().square().sum().backward()
    optimiser.step()
    G = 2 * (V - goal)
    B = 4 * rate / 2 * (G @ V.mH - V @ G.mH)  # a Cayley transform of A moves by 2 A, and a gradient sees that too
    eye = torch.eye(5, dtype=torch.complex128)
    torch.testing.assert_close(matrix().detach(), torch.linalg.solve(eye + B, eye - B) @ V)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Dense(0), "at least one row"),
        (lambda: Dense(4, "magic"), "Unknown initialiser 'magic'"),
        (lambda: Exponential(4, "magic"), "Exponential has no initialiser 'magic'; choose one of henaff"),
        (lambda: Householder(4, init="glorot"), "Householder has no initialiser 'glorot'"),
        (lambda: Givens(5), "must be even, but is 5"),
        (lambda: Givens(6, style="fft"), "power of 2"),
        (lambda: Givens(8, 2, style="fft"), "layers is 2"),
        (lambda: Givens(8, 9), "1 to 8 layers"),
        (lambda: Cayley(4, negative=5), "choose negative in 0..4"),
        (lambda: Cayley(4, negative=-1), "choose negative in 0..4"),
        (lambda: Cayley(4, negative=1, complex=True), "negative is for a real matrix"),
        (lambda: Householder(4, 5), "1 to 4 reflections"),
        (lambda: Householder(4, 0), "1 to 4 reflections"),
        (lambda: Householder(4, 3, "identity"), "never a rotation"),
        (lambda: SVD(4, 1.0), "below 1, but is 1.0"),
        (lambda: Schur(4, "magic"), "Unknown kind of orthogonal matrix 'magic'"),
        (lambda: Schur(4, modulus=-1.0), "modulus must be at least 0"),
        (lambda: Schur(4, clamp=-0.1), "clamp must be at least 0"),
        (lambda: Schur(4, decay=float("inf")), "decay must be at least 0"),
        (lambda: Normal(4, real=3), "an even number from 0 to 4 can be real, but real is 3"),
        (lambda: Normal(5, real=7), "an odd number from 1 to 5 can be real, but real is 7"),
        (lambda: Normal(4, real=2, negative=3), "Of 2 real eigenvalues 3 cannot be negative"),
        (lambda: Normal(4, negative=-1), "choose negative in 0..0"),
        (lambda: Normal(5, "givens"), "must be even, but is 5"),
        (lambda: Normal(4, "magic"), "Unknown kind of orthogonal matrix 'magic'"),
        (lambda: unwrap(matrix_rnn)(4, 4, matrices="magic"), "matrices must be one of free, .*normal, but is 'magic'"),
        (lambda: Schur(4, modulus_penalty=float("nan")), "modulus_penalty"),
        (lambda: Elman(3, 5, connectivity=Dense(4)), "yields a 4 x 4 matrix"),
        (lambda: Elman(3, 4, "relu", connectivity=Fourier(4)), "relu is not defined for complex states"),
        (lambda: GORU(3, 4, Fourier(4)), "yields a complex one"),
    ],
)
def test_bad_options_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_parameters_that_are_not_finite_are_refused(matrix):
    state = matrix.state_dict()
    name = next(name for name, parameter in matrix.named_parameters() if parameter.numel())
    state[name] = torch.full_like(state[name], torch.nan)
    with pytest.raises(ValueError, match="infinite or NaN"):
        matrix.load_state_dict(state)


def test_an_exponential_of_nan_says_so():
    matrix = Exponential(4)
    with torch.no_grad():
        matrix.skew.above.fill_(torch.nan)
    with pytest.raises(ValueError, match="not finite"):
        matrix()


def test_half_precision_is_refused(matrix):
    if isinstance(matrix, Dense):
        assert matrix.bfloat16()().dtype == torch.bfloat16
        return
    with pytest.raises(TypeError, match="by torch"):
        matrix.bfloat16()()


# --- in networks ------------------------------------------------------------------------------------------------------


def size_of(cell, inputs, outputs):
    return sum(parameter.numel() for parameter in learned(Model(cell, outputs)))


def test_sizes_as_published():
    """Kerg, A.1: 18.9K parameters on the copy task, 269K on permuted MNIST, of nnRNN and expRNN."""
    assert size_of(nnrnn(10, 128), 10, 9) == 18_889
    assert size_of(exprnn(10, 176), 10, 9) == 18_929
    assert abs(size_of(nnrnn(1, 512), 1, 10) - 269_000) < 1_000
    assert abs(size_of(exprnn(1, 722), 1, 10) - 269_000) < 1_000
    assert matched_size(exprnn, 18_889, 10, 9) == 176
    assert matched_size(exprnn, size_of(nnrnn(1, 512), 1, 10), 1, 10) == 720
    assert matched_size(rnn, 22, 2, 1, even=False) == 3
    assert 100 < matched_size(ornn, 6_000, 10, 9, reflections=16) < 300
    assert matched_size(eurnn, 20_000, 10, 9, style="fft") in (256, 512)


def test_an_irnn_stays_at_zero_without_input():
    cell = irnn(1, 20)
    assert not cell(torch.zeros(3, 1), cell.initial_state(3)).any()
    assert cell.drive.weight.std() < 2e-3


def test_goru_is_its_formula():
    cell = GORU(3, 6).double()
    with torch.no_grad():
        cell.gate_bias.normal_()
        cell.phi.bias.normal_(std=0.3)
    x, h = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    U, W, b, V = cell.drive.weight, cell.gates.weight, cell.gate_bias, cell.connectivity()
    r, z = (torch.sigmoid(x @ U[i : i + 6].T + h @ W[i : i + 6].T + b[i : i + 6]) for i in (0, 6))
    new = x @ U[12:].T + r * (h @ V.T)
    candidate = new.sign() * (new.abs() + cell.phi.bias).clamp(min=0)
    torch.testing.assert_close(cell(x, h), z * h + (1 - z) * candidate)


@pytest.mark.parametrize("name", [entry.name for entry in registry.cells])
def test_every_named_model_runs_and_learns_every_parameter(name):
    own = {"output_size": 2} if registry.OWN_READOUT in registry.cells[name].tags else {}
    model = Model(registry.cells.load(name)(3, 8, **own), 2)
    outputs, _ = model(torch.randn(25, 4, 3))  # longer than the ten steps after which some store their first state
    assert outputs.shape == (25, 4, 2)
    outputs.square().sum().backward()
    for part, parameter in model.named_parameters():
        assert parameter.grad is not None or not parameter.requires_grad, part


def test_a_matrix_is_formed_once_while_steps_are_timed(monkeypatch):
    cell, formed = exprnn(3, 8).double(), []
    form = type(cell.connectivity).forward
    monkeypatch.setattr(type(cell.connectivity), "forward", lambda self: formed.append(0) or form(self))
    x, h = torch.randn(2, 3).double(), torch.randn(2, 8).double()
    wanted = cell.step(x, h)[0]
    with formed_once(cell):
        for _ in range(3):
            torch.testing.assert_close(cell.step(x, h)[0], wanted, rtol=0, atol=0)
        assert not cell.connectivity().requires_grad
        with formed_once(cell):
            cell.step(x, h)
        assert not cell.connectivity().requires_grad  # the outer context lasts
    assert len(formed) == 2  # once before, once inside
    assert cell.connectivity().requires_grad
    with pytest.raises(ZeroDivisionError), formed_once(cell):
        cell.step(x, h)[0] / (1 // 0)
    assert "forward" not in vars(cell.connectivity)
