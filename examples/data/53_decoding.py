#!/usr/bin/env python3
"""Writes a small language model of the Llama architecture with random weights, as
53_decoding.safetensors and 53_decoding.onnx, and what Hugging Face's transformers compute with it,
53_decoding_expected.safetensors: "prompt", the logits after each of its tokens, and "tokens", by
which greedy decoding continues. Needs onnx, onnxscript, safetensors, torch and transformers.

    python3 examples/data/53_decoding.py
"""
import pathlib

import onnx
import torch
from safetensors.torch import save_file
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

FOLDER = pathlib.Path(__file__).parent
PROMPT, NEW_TOKENS = [3, 14, 15, 9, 26, 5, 35, 8], 40

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=48,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    initializer_range=0.25,
)
model = LlamaForCausalLM(config).eval()
with torch.no_grad():
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
save_file({name: weight.detach() for name, weight in model.named_parameters()}, FOLDER / "53_decoding.safetensors")

prompt = torch.tensor([PROMPT])
with torch.no_grad():
    logits = model(prompt).logits[0]
    decoded = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS,
                             do_sample=False, eos_token_id=None)[0]
    best = model(decoded[None, :-1]).logits[0, len(PROMPT) - 1 :].topk(2).values
assert (best[:, 0] - best[:, 1]).min() > 1e-3, "rounding may choose another token"
save_file(
    {"prompt": prompt[0].int(), "logits": logits, "tokens": decoded[len(PROMPT) :].int()},
    FOLDER / "53_decoding_expected.safetensors",
)


class Decoder(torch.nn.Module):
    """The model with its cache as inputs and outputs, as decoders are exported."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position_ids, *past):
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(input_ids=input_ids, position_ids=position_ids, past_key_values=cache, use_cache=True)
        return (out.logits, *(x for layer in out.past_key_values.layers for x in (layer.keys, layer.values)))


def names(what):
    return [f"{what}.{i}.{kind}" for i in range(config.num_hidden_layers) for kind in ("key", "value")]


past = [torch.zeros(1, config.num_key_value_heads, 3, config.head_dim) for _ in names("past")]
steps, before = torch.export.Dim("steps"), torch.export.Dim("past")
path = FOLDER / "53_decoding.onnx"
torch.onnx.export(
    Decoder(model).eval(),
    (prompt[:, :2], torch.arange(3, 5)[None], *past),
    path,
    input_names=["input_ids", "position_ids", *names("past_key_values")],
    output_names=["logits", *names("present")],
    dynamic_shapes=({1: steps}, {1: steps}, tuple({2: before} for _ in past)),
    external_data=False,
    dynamo=True,
)
exported = onnx.load(path)
for part in (exported.graph, *exported.graph.node, *exported.graph.value_info, *exported.graph.initializer):
    del part.metadata_props[:]  # where in the sources of transformers each node comes from
del exported.graph.value_info[:]
onnx.save(exported, path)
