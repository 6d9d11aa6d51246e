"""A chat template in which a tool call is bare JSON, as small models write it by themselves."""

BARE_JSON = """\
{%- set given = messages[0].role == 'system' -%}
<|im_start|>system
{% if given %}{{ messages[0].content }}{% else %}You are a helpful assistant.{% endif %}
{%- if tools %}

Functions that you can call, one a line:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
To call one, answer with nothing but JSON: {"name": "<function name>", "arguments": {<arguments>}}
Once you know a function's result, answer the user with it in words.
{%- endif %}<|im_end|>
{% for message in messages %}
{%- if message.role == 'tool' -%}
<|im_start|>user
Result of the function: {{ message.content }}<|im_end|>
{% elif message.role == 'assistant' and message.tool_calls -%}
<|im_start|>assistant
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls %}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- endfor %}<|im_end|>
{% elif not (given and loop.first) -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif %}"""
"""For the policy "model". The turns are those of ChatML, so it fits files whose own template has that form."""
