"""Groups of parameters that are refused: one line that says what is wrong, and nothing has changed."""

from __future__ import annotations

import pytest
from test_optim import parameter
from test_parameter_groups import grouped, parameters

from qkv import nn, optim

REJECTIONS = [
    (
        lambda p, q: optim.AdamW([{"params": [p]}, {"params": [q, p]}]),
        ValueError,
        r"^AdamW: params must be distinct because a step updates each once; got params\[0\] of group 0 again as "
        r"params\[1\] of group 1$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p]}, {"params": [q], "wieght_decay": 0.0}]),
        TypeError,
        r"^AdamW, group 1: got an unexpected argument wieght_decay; did you mean weight_decay\? It takes params, lr, "
        r"weight_decay, betas, eps$",
    ),
    (
        lambda p, q: optim.SGD([{"params": [p], "betas": (0.9, 0.99)}], lr=1),
        TypeError,
        r"^SGD, group 0: got an unexpected argument betas; it takes params, lr, weight_decay, momentum, nesterov$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p], "name": "decay"}]),
        TypeError,
        r"unexpected argument name; groups have no names, leave it out; it takes params",
    ),
    (
        lambda p, q: optim.AdamW([{"lr": 0.1}]),
        TypeError,
        r"^AdamW, group 0: params must be given; it takes params, lr, weight_decay, betas, eps$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p]}, {"params": []}]),
        ValueError,
        r"^AdamW, group 1: params must hold at least one Tensor; got none \(what a generator gives, it gives once\)$",
    ),
    (
        lambda p, q: optim.AdamW({"params": [p]}),
        TypeError,
        r"^AdamW: params must be a list of groups; got one group; write \[group\]$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p]}, q]),
        TypeError,
        r"^AdamW: params must be groups if the first is one; got params\[1\] of type Tensor$",
    ),
    (lambda p, q: optim.AdamW([p, {"params": [q]}]), TypeError, r"^AdamW: .* got params\[1\] of type dict$"),
    (
        lambda p, q: optim.AdamW([{"params": nn.Linear(2, 3)}]),
        TypeError,
        r"^AdamW, group 0: params must be an iterable of Tensors; got Linear; write layer.parameters\(\)$",
    ),
    (
        lambda p, q: optim.AdamW({p.dtype, q.dtype}),
        TypeError,
        "^AdamW: params must have an order because states are saved by number; got set$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p], "lr": "fast"}]),
        TypeError,
        "^AdamW, group 0: lr must be a number; got 'fast'$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p], "betas": 0.9}]),
        TypeError,
        "^AdamW, group 0: betas must be two numbers because they weigh two averages; got 0.9$",
    ),
    (
        lambda p, q: optim.SGD([{"params": [p], "nesterov": 1}], lr=1),
        TypeError,
        "^SGD, group 0: nesterov must be True or False; got 1$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p], "lr": -1}]),
        ValueError,
        "^AdamW: lr must be at least 0 .* got lr = -1$",
    ),
    (
        lambda p, q: optim.AdamW([{"params": [p], "lr": 1}], lr=-2),
        ValueError,
        "^AdamW: lr must be at least 0 .* got lr = -2$",
    ),
    (
        lambda p, q: optim.AdamW([p]).add_param_group({"params": p}),
        ValueError,
        r"^AdamW: .* got params\[0\] of group 0 again as params\[0\] of group 1$",
    ),
    (
        lambda p, q: optim.AdamW([p]).add_param_group({"params": q, "momentum": 0.9}),
        TypeError,
        r"^AdamW.add_param_group: got an unexpected argument momentum; give both rates as betas=",
    ),
    (
        lambda p, q: optim.AdamW([p]).add_param_group([q]),
        TypeError,
        r"^AdamW.add_param_group: param_group must be a dict; got list$",
    ),
    (
        lambda p, q: optim.AdamW([p]).param_groups[0]["initial_lr"],
        KeyError,
        "AdamW: got an unexpected argument initial_lr; schedules keep it themselves, leave it out; it takes params",
    ),
    (
        lambda p, q: optim.AdamW([p]).param_groups[0].update(learning_rate=1),
        KeyError,
        r"AdamW: got an unexpected argument learning_rate; did you mean lr \(called learning_rate in Keras\)\?",
    ),
    (
        lambda p, q: optim.AdamW([p]).param_groups[0].update(params=[q]),
        TypeError,
        "^AdamW: params of a group cannot be replaced because what is remembered belongs to them; add others by "
        "optimizer.add_param_group$",
    ),
    (
        lambda p, q: optim.ParameterGroup(),
        TypeError,
        r"^ParameterGroup: must be made by optimizer.add_param_group\(\{...\}\); got a call of the class$",
    ),
]


@pytest.mark.parametrize(("make", "error", "text"), REJECTIONS)
def test_rejections(make, error, text):
    with pytest.raises(error, match=text) as caught:
        make(parameter(), parameter((3,)))
    assert "\n" not in str(caught.value)


def test_a_group_that_is_refused_changes_nothing():
    p, q = parameter(), parameter((3,))
    optimizer = optim.SGD([p], lr=1.0)
    for group in ({"params": [q, q]}, {"params": [q], "lr": -1}, {"params": [q, q * 2]}):
        with pytest.raises(ValueError, match=r"^SGD: "):
            optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [q]})


def test_loading_rejections():
    params = parameters()
    two, one = grouped("AdamW", params), optim.AdamW(params)
    with pytest.raises(ValueError, match=r"^AdamW.load_state_dict: state_dict must be of 1 groups .* got 2$"):
        one.load_state_dict(two.state_dict())
    uneven = optim.AdamW([{"params": params[:1]}, {"params": params[1:]}])
    text = "^AdamW.load_state_dict: state_dict must be of 1 parameters because group 0 has as many; got 2$"
    with pytest.raises(ValueError, match=text):
        uneven.load_state_dict(two.state_dict())
    for change, text in (
        (lambda g: g.pop("eps"), r"^AdamW.load_state_dict: a group must hold eps; got keys \['lr', "),
        (lambda g: g.update(amsgrad=True), "amsgrad must be False because AdamW knows no other; got True$"),
        (lambda g: g.update(maximize=True), "maximize must be False because"),
        (lambda g: g.update(decoupled_weight_decay=False), "decoupled_weight_decay must be True because"),
        (lambda g: g.update(lr=-1), "lr must be at least 0"),
        (
            lambda g: g.pop("params"),
            r"^AdamW.load_state_dict: params of a group must be there; got keys \['lr', ",
        ),
    ):
        saved = two.state_dict()
        saved["param_groups"][0]["lr"] = 123.0
        change(saved["param_groups"][1])
        with pytest.raises(ValueError, match=text):
            two.load_state_dict(saved)
        assert two.param_groups[0]["lr"] == 0.1  # nothing is loaded in part
