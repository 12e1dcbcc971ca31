"""Writes 32_sentence_embeddings.safetensors: tokens and embeddings as Hugging Face's transformers have them, in double precision, of the
model all-MiniLM-L6-v2.

    pip install torch transformers safetensors && bash examples/data/fetch_minilm.sh
    python3 examples/data/32_sentence_embeddings.py build/models/all-MiniLM-L6-v2
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import BertModel, BertTokenizerFast

sentences = ["A cat sleeps on the windowsill.", "The kitten is napping by the window!", "Central banks raised interest rates again.",
             "unaffable antidisestablishmentarianism, co-operate: 1,024 x (3.14)", "zzxqj " + "x" * 101]
folder = sys.argv[1]
tokenizer, model = BertTokenizerFast.from_pretrained(folder), BertModel.from_pretrained(folder).double().eval()
result = {}
for i, sentence in enumerate(sentences):
    batch = tokenizer(sentence, return_tensors="pt")
    with torch.no_grad():
        mean = model(**batch).last_hidden_state.mean(1)[0]
    result[f"{i}/text"] = torch.tensor(list(sentence.encode()), dtype=torch.uint8)
    result[f"{i}/tokens"] = batch.input_ids[0].int()
    result[f"{i}/embedding"] = (mean / mean.norm()).float()
    print(sentence, tokenizer.convert_ids_to_tokens(batch.input_ids[0]))
save_file(result, pathlib.Path(__file__).with_suffix(".safetensors"))
