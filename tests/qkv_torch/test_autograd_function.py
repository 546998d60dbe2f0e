"""``autograd.Function``: the same programs with PyTorch."""

from __future__ import annotations

import pytest

import qkv.torch

from .both import same


def leaf(torch, *values, dtype=None):
    return torch.tensor(values or (1.0, -2.0, 3.0), dtype=dtype or torch.float64, requires_grad=True)


def exponential(torch):
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, dy):
            (y,) = ctx.saved_tensors
            return dy * y

    return Exponential.apply


def linear(torch):
    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias=None):
            ctx.save_for_backward(x, weight, bias)
            y = x @ weight.t()
            return y if bias is None else y + bias

        @staticmethod
        def backward(ctx, dy):
            x, weight, bias = ctx.saved_tensors
            dx = dy @ weight if ctx.needs_input_grad[0] else None
            dw = dy.t() @ x if ctx.needs_input_grad[1] else None
            db = dy.sum(0) if bias is not None and ctx.needs_input_grad[2] else None
            return dx, dw, db

    return Linear.apply


def test_first_and_second_derivatives():
    def program(torch):
        x, f = leaf(torch), exponential(torch)
        y = f(x)
        (dx,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        (ddx,) = torch.autograd.grad(dx.sum(), x, create_graph=True)
        (dddx,) = torch.autograd.grad(ddx.sum(), x)
        with torch.no_grad():
            unrecorded = f(x).requires_grad
        return y, dx, ddx, dddx, str(f(x).detach()), unrecorded, y.requires_grad, y.is_leaf

    same(program)


def test_the_text_names_the_function():
    def program(torch):
        y = exponential(torch)(leaf(torch))
        return str(y), type(y.grad_fn).__name__, y.grad_fn.name()

    same(program)


def test_optional_inputs_and_needs_input_grad():
    def program(torch):
        torch.manual_seed(0)
        x, w, b = torch.randn(4, 3), torch.randn(2, 3, requires_grad=True), torch.randn(2, requires_grad=True)
        y = linear(torch)(x, w, b).square().sum()
        y.backward()
        again = linear(torch)(x.requires_grad_(), w).sum()
        return y, w.grad, b.grad, torch.autograd.grad(again, [x, w])

    same(program)


def test_several_outputs_some_without_gradient():
    def program(torch):
        seen = []

        class Parts(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                ctx.k, largest, rounded = k, x.argmax(), x.round()
                ctx.mark_non_differentiable(rounded)
                return x * k, "text", largest, rounded, x + k

            @staticmethod
            def backward(ctx, *dys):
                seen.append([None if dy is None else dy.clone() for dy in dys[2:]])
                return dys[0] * ctx.k + dys[4], None

        x = leaf(torch)
        a, text, largest, rounded, b = Parts.apply(x, 3)
        a.sum().backward()
        first = x.grad.clone()
        b = Parts.apply(x, 3)[4]
        (b * b).sum().backward()
        needs = [t.requires_grad for t in (a, largest, rounded, b)]
        return a, text, largest, rounded, b, needs, first, x.grad, seen[0][1:], seen[1][1:]

    same(program)


def test_gradients_that_are_not_materialized():
    def program(torch):
        seen = []

        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, da, db):
                seen.extend([da, db])
                return None if db is None else 3 * db

        x = leaf(torch)
        y = leaf(torch)
        (Two.apply(x)[0] + y).sum().backward()
        return seen, x.grad, y.grad

    same(program)


def test_setup_context_and_keywords():
    def program(torch):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(x, scale=2.0):
                return x * scale

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, ctx.scale = inputs[:2]
                ctx.save_for_backward(x, output)

            @staticmethod
            def backward(ctx, dy):
                x, y = ctx.saved_tensors
                return dy * ctx.scale + 0 * x * y, None

        x = leaf(torch)
        y = Scaled.apply(x) + Scaled.apply(x, scale=5.0)
        return y, torch.autograd.grad(y.sum(), x)

    same(program)


def test_keywords():
    def program(torch):
        class Power(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, power):
                ctx.save_for_backward(x)
                ctx.power = power
                return x**power

            @staticmethod
            def backward(ctx, dy):
                return ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1) * dy, None

        x = leaf(torch)
        return torch.autograd.grad((Power.apply(power=2, x=x) * Power.apply(x, power=3)).sum(), x)

    same(program)


def test_identity_views_and_changes_in_place():
    def program(torch):
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, dy):
                return -dy

        class Same(Reverse):
            @staticmethod
            def forward(ctx, x):
                return x

        class Increment(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                ctx.save_for_backward(x)
                return x.add_(1)

            @staticmethod
            def backward(ctx, dy):
                return 5 * dy * ctx.saved_tensors[0].detach()

        x = leaf(torch)
        a = x * 2
        b = Increment.apply(a)
        y = (a * x).sum() + Reverse.apply(x * x).sum() + Same.apply(x * x * x).sum()
        return b is a, a, Same.apply(x) is x, y, torch.autograd.grad(y, x)

    same(program)


def test_views_of_an_input_are_not_changed_with_gradients_on():
    class Shown(qkv.torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[1:]

        @staticmethod
        def backward(ctx, dy):
            return qkv.torch.cat([dy[:1] * 0, dy])

    x = leaf(qkv.torch)
    doubled = x * 2
    with pytest.raises(RuntimeError, match="view"):
        Shown.apply(doubled).mul_(2)


def test_a_saved_input_that_was_changed_is_noticed():
    def program(torch):
        x, w = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0])
        y = linear(torch)(x, w)
        with torch.no_grad():
            w.mul_(2)
        return torch.autograd.grad(y.sum(), x)

    assert same(program) is RuntimeError


def test_broadcast_gradients_and_other_dtypes():
    def program(torch):
        class Wide(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sum()

            @staticmethod
            def backward(ctx, dy):
                return dy * torch.arange(12.0, dtype=torch.float32).reshape(2, 2, 3)

        x = leaf(torch, [1.0], [2.0])
        return torch.autograd.grad(Wide.apply(x), x)

    same(program)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda dy: dy, "incorrect number of gradients .expected 2, got 1."),
        (lambda dy: (dy, dy), "gradient different than None at position 2"),
        (lambda dy: (dy, None, dy), "incorrect number of gradients .expected 2, got 3."),
        (lambda dy: (dy[:2], None), "gradient 0 must be|invalid gradient at index 0"),
        (lambda dy: (1.0, None), "expected Variable or None .got float."),
        (lambda dy: (dy, None, None), None),
        (lambda dy: (None, None), None),
    ],
)
def test_wrong_gradients_are_refused(result, message):
    def program(torch):
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * k

            @staticmethod
            def backward(ctx, dy):
                return result(dy)

        x = leaf(torch)
        y = Wrong.apply(x, 2).sum() + 0 * x.sum()
        if message is None:
            return torch.autograd.grad(y, x)
        with pytest.raises((RuntimeError, TypeError), match=message):
            y.backward()
        return x.grad

    same(program)


def test_misuse():
    def no_tensor(torch):
        class Saves(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)
                return x * 1

        return Saves.apply(leaf(torch))

    def no_backward(torch):
        class Forward(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

        return Forward.apply(leaf(torch)).sum().backward()

    def twice(torch):
        y = exponential(torch)(leaf(torch)).sum()
        y.backward()
        y.backward()

    def fails(torch):
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, dy):
                raise ValueError("mine")

        Fails.apply(leaf(torch)).sum().backward()

    for program in (no_tensor, no_backward, twice, fails):
        assert isinstance(same(program), type), program


def test_once_differentiable():
    def program(torch):
        class Once(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, dy):
                (x,) = ctx.saved_tensors
                return 3 * x**2 * dy

        x = leaf(torch)
        y = (Once.apply(x) ** 2).sum()
        (dx,) = torch.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            dx.sum().backward()
        return dx

    same(program)


def test_grad_differentiates_what_leads_to_its_inputs():
    def program(torch):
        differentiated = []

        class Named(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, name):
                ctx.name = name
                return x * 2

            @staticmethod
            def backward(ctx, dy):
                differentiated.append(ctx.name)
                return dy * 2, None

        x, w, other = leaf(torch), leaf(torch), leaf(torch)
        middle = Named.apply(x, "x") * Named.apply(w, "w")
        y = (Named.apply(middle, "middle") + Named.apply(other, "other")).sum()
        gradients = []
        for inputs in ([x], [w], [middle], [other], [x, middle], [w, other], [x, w, other]):
            for create in (False, True):
                gradients += torch.autograd.grad(y, inputs, retain_graph=True, create_graph=create)
                differentiated.append("-")
        torch.autograd.grad(y, [other])
        gradients += torch.autograd.grad(middle.sum(), [w])
        return [g.detach() for g in gradients], " ".join(differentiated)

    same(program)
