"""Templates of conversations beside Hugging Face's."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from qkv.models.text.chat import rendered

pytest.importorskip("jinja2")
MESSAGES = [
    {"role": "system", "content": "Be <short>."},
    {"role": "user", "content": 'Häuser & "Bäume"'},
    {"role": "assistant", "content": "Ja."},
]
EACH = "{% for m in messages %}"
TEMPLATES = {
    "plain": EACH
    + "<|{{ m.role }}|>{{ m['content'] }}{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}A{% endif %}",
    "what a model wrote": EACH
    + "{% if m.role == 'assistant' %}\n  {% generation %}\n{{ m.content }}{% endgeneration %}\n"
    + "{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "no tools": "{% if tools is not none or documents is not none %}some{% endif %}{{ tools is defined }}",
    "JSON": EACH
    + "{{ m | tojson }}{{ m | tojson(indent=2) }}"
    + "{{ m | tojson(ensure_ascii=True, separators=(',', ':'), sort_keys=True) }}{% endfor %}",
    "leaving": EACH + "{% if loop.index == 2 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
    "the year": "{{ strftime_now('%Y') }}{{ strftime_now is defined }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_give_the_same_text(name):
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    [expected], _ = utils.render_jinja_template(
        conversations=[MESSAGES], chat_template=TEMPLATES[name], add_generation_prompt=True, eos_token="</s>"
    )
    assert rendered(TEMPLATES[name], MESSAGES, True, {"eos_token": "</s>"}) == expected


def test_what_templates_may_name():
    assert rendered(TEMPLATES["what a model wrote"], MESSAGES, False, {}).endswith("Ja.")
    assert rendered(TEMPLATES["no tools"], MESSAGES, False, {}) == "True"
    assert rendered(TEMPLATES["the year"], [], False, {}) == f"{datetime.now().year}True"
    assert json.dumps(MESSAGES[1], ensure_ascii=False) in rendered(TEMPLATES["JSON"], MESSAGES, False, {})
    with pytest.raises(ValueError, match="messages must be what the template takes; no"):
        rendered("{{ raise_exception('no') }}", MESSAGES, False, {})


@pytest.mark.parametrize("messages", ["Hi", MESSAGES[0], [MESSAGES], [None], None, 3])
def test_what_is_no_conversation(messages):
    with pytest.raises(TypeError, match=r"^apply_chat_template: messages must be a sequence of mappings"):
        rendered(TEMPLATES["plain"], messages, True, {})


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{% break %}", "{% for i in range(10 ** 9) %}{% endfor %}"]
)
def test_templates_that_fail(template):
    with pytest.raises(ValueError, match=r"^apply_chat_template: messages must be what the template takes; "):
        rendered(template, MESSAGES, True, {})
