"""Kernels are operators of torch: checked by torch, seen by its tools, counted as its own are."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import opcheck
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds.additive import AdditiveScore
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks import mask as masks
from regard.batch import Batch
from regard.models.families.decoder import Decoder
from regard.nn import activations
from regard.nn.linear import Linear
from regard.nn.mlp import MLP
from regard.ops import attention, cross_entropy, linear
from regard.ops.cpu import library
from regard.ops.cross_entropy import weighted_cross_entropy

CAUSAL = (True, -4_000, 0.56)
"A causal mask, the threshold and the probability of dropout."

IN_PLACE = {torch.ops.aten.addmm_: lambda _, a, b, **__: 2 * a[0] * a[1] * b[1]}
"torch's counter does not know it, and the reference of the loss sums gradients by it."


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def operators_and_arguments():
    """By name; the arguments differ in strides, options and absent tensors."""
    x, weight = normal(70, 48), normal(32, 48)
    table, weights = normal(90, 48), normal(70).exp()
    q, k, v, d_out, out = (normal(2, 20, 3, 16).transpose(1, 2) for _ in range(5))
    draws = torch.randint(-(2**15), 2**15, (2, 3, 20, 20), dtype=torch.int16)
    saved, score_weight = (d_out, q, k, v, out, normal(2, 3, 20).exp()), normal(3, 16)
    d_y, x_rows = normal(2, 35, 32), normal(2, 35, 48)
    return {
        "linear": (linear.LINEAR, (x, weight, normal(32))),
        "linear, transposed": (linear.LINEAR, (normal(48, 70).T, weight, None)),
        "linear backward": (linear.LINEAR_BACKWARD, (d_y, x_rows, weight, [True] * 3)),
        "linear backward, frozen": (
            linear.LINEAR_BACKWARD,
            (d_y, None, weight, [True, False, True]),
        ),
        "logits": (cross_entropy.LOGITS_PASS, (x, table, weights, [True, False])),
        "logits, table": (cross_entropy.LOGITS_PASS, (x, table, weights, [False, True])),
        "dot": (attention.DOT, (q, k, v, None, False, 0, 1.0, 0.25)),
        "dot, dropout": (attention.DOT, (q, k, v, draws, *CAUSAL, 0.25)),
        "dot backward": (attention.DOT_BACKWARD, (*saved, draws, *CAUSAL, 0.25)),
        "additive": (attention.ADDITIVE, (q, k, v, score_weight, draws, *CAUSAL)),
        "additive backward": (
            attention.ADDITIVE_BACKWARD,
            (*saved, score_weight, None, False, 0, 1.0),
        ),
    }


OPERATORS = operators_and_arguments()
DIFFERENTIABLE = (linear.LINEAR, attention.DOT, attention.ADDITIVE)


def check_operator(name, tests):
    operator, arguments = OPERATORS[name]
    if operator in DIFFERENTIABLE:
        arguments = [
            x.detach().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x
            for x in arguments
        ]
    opcheck(operator.registered, arguments, test_utils=tests)


@pytest.mark.parametrize("name", OPERATORS)
def test_schema_and_fake_of_every_operator(name):
    check_operator(name, ("test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_traced_with_its_gradients(name):
    check_operator(name, ("test_aot_dispatch_static", "test_aot_dispatch_dynamic"))


@pytest.mark.parametrize("name", OPERATORS)
def test_direct_calls_and_dispatched_ones_give_the_same_bits(name):
    operator, arguments = OPERATORS[name]
    direct, dispatched = operator(*arguments), operator.registered(*arguments)
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (direct, dispatched)), strict=True)
    for one, other in pairs:
        assert one is other is None or torch.equal(one, other)


@pytest.mark.parametrize("name", OPERATORS)
def test_direct_calls_with_shapes_that_do_not_fit_are_refused(name):
    """An operator may be called by anybody: C would read beyond the end of a tensor."""
    operator, arguments = OPERATORS[name]
    for index, x in enumerate(arguments):
        if not torch.is_tensor(x):
            continue
        for changed in (x.double(), x[..., :-1], x[..., :-1].contiguous()):
            others = [changed if n == index else other for n, other in enumerate(arguments)]
            with pytest.raises(RuntimeError, match="do not fit"):
                operator.registered(*others)


def test_few_rows_and_narrow_layers_are_refused():
    """The kernels compute whole blocks of rows and whole vectors of columns."""
    for rows, width in ((63, 48), (70, 20), (70, 0)):
        with pytest.raises(RuntimeError, match="do not fit"):
            linear.LINEAR.registered(normal(rows, width), normal(32, width), None)


def training_step(module, *inputs, of=lambda y: y):
    def step():
        of(module(*inputs)).sum().backward()

    return step


def decoder_parts():
    """Steps that a kernel computes here, and torch's operations elsewhere."""
    x = normal(2, 300, 48).requires_grad_()
    frozen = Linear(48, 32).requires_grad_(False)
    mlp_module = MLP(48, hidden=96, activation=activations.GELU, biases=True)
    q, k, v = (normal(2, 40, 3, 16).transpose(1, 2).requires_grad_() for _ in "qkv")
    additive = AdditiveScore(HeadShape(width=16, heads=3, context=64), hidden=32)
    table = normal(90, 48).requires_grad_()
    targets, weights = torch.zeros(2, 300, dtype=torch.long), torch.ones(2, 300)

    def attended(mask, function):
        return lambda: attend(q, k, v, mask, function).out.sum().backward()

    return {
        "linear": training_step(Linear(48, 32), x),
        "linear, frozen": training_step(frozen, x),
        "linear, first": training_step(Linear(48, 32), x.detach()),
        "mlp": training_step(mlp_module, x),
        "loss": lambda: weighted_cross_entropy(
            x, table, targets=targets, weights=weights
        ).backward(),
        "loss alone": lambda: weighted_cross_entropy(
            x.detach(), table.detach(), targets=targets, weights=weights
        ),
        "dot": attended(masks.causal(), DotProduct()),
        "additive": attended(masks.bidirectional(), additive),
    }


@pytest.mark.parametrize("part", decoder_parts())
def test_flops_are_those_of_torchs_operations(part):
    step = decoder_parts()[part]
    with FlopCounterMode(display=False) as by_kernels:
        step()
    # Unfused: torch's formulas for its fused attention know GPUs alone.
    by_torch = FlopCounterMode(display=False, custom_mapping=IN_PLACE)
    with library.without_kernels(), sdpa_kernel(SDPBackend.MATH), by_torch:
        step()
    counted = by_kernels.get_flop_counts()["Global"]
    assert any(str(operator).startswith("regard.") for operator in counted)
    expected = by_torch.get_total_flops()
    if part == "dot":  # fused kernels compute the scores again: five products to four
        expected = expected * 7 // 6
    assert by_kernels.get_total_flops() == expected


def test_profiler_sees_forward_and_backward():
    x = normal(600, 32).requires_grad_()
    with profile() as profiler:
        Linear(32, 48)(x).sum().backward()
    names = {event.key for event in profiler.key_averages()}
    assert {"regard::linear", "regard::linear_backward"} <= names


def test_fake_tensors_go_through_layers_and_their_gradients():
    with FakeTensorMode():
        module = MLP(32, hidden=64, activation=activations.GELU, biases=True)
        y = module(torch.empty(2, 400, 32))
        y.sum().backward()
    assert y.shape == (2, 400, 32)
    assert y.grad_fn.name() == "_LinearBackward"
    assert module.up_proj.weight.grad.shape == (64, 32)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_fake_tensors_go_through_a_training_step(dropout):
    family = Decoder(width=64, layers=1, heads=2, context=64, dropout=dropout)
    model, ids = family.build(vocabulary=50, seed=0), torch.zeros(10, 64, dtype=torch.long)
    batch = Batch(ids, ids, torch.ones(10, 64), ids == 0, None, tuple(range(10))).to("cpu")
    with FakeTensorMode(allow_non_fake_inputs=True), FlopCounterMode(display=False) as counter:
        loss = sum(term.sum for term in model(batch).values())
        gradients = torch.autograd.grad(loss, list(model.parameters()))
    assert [g.shape for g in gradients] == [p.shape for p in model.parameters()]
    seen = {str(operator) for operator in counter.get_flop_counts()["Global"]}
    forward = {"regard.linear", "regard.dot_attention"}
    assert seen >= forward | {f"{name}_backward" for name in forward} | {"regard.logits_pass"}


def test_foreign_modes_see_torchs_operations():
    """A mode that is not torch's may know no other operations."""

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            names.append(function.name())
            return function(*arguments, **(options or {}))

    names = []
    x, layer = normal(600, 32), Linear(32, 48)
    with Names():
        y = layer(x)
    assert names
    assert not any(name.startswith("regard::") for name in names)
    assert torch.allclose(y, F.linear(x, layer.weight, layer.bias), atol=1e-5)


def test_without_kernels_is_torch_alone():
    x, layer = normal(600, 32), Linear(32, 48)
    with library.without_kernels():
        assert layer(x).grad_fn.name() == "AddmmBackward0"
    assert layer(x).grad_fn.name() == "_LinearBackward"


@pytest.mark.long
def test_compiled_layers_give_the_same_bits():
    module = MLP(32, hidden=64, activation=activations.GELU, biases=True)
    x, upstream = normal(600, 32).requires_grad_(), normal(600, 32)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    for one, other in zip(
        torch.autograd.grad(module(x), [x, *module.parameters()], upstream),
        torch.autograd.grad(compiled(x), [x, *module.parameters()], upstream),
        strict=True,
    ):
        assert torch.equal(one, other)
