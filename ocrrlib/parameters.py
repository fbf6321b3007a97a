"""How many parameters LoRA's backbones have, and how many are trained (paper, section 4.5): counted, not looked up."""

import pandas as pd
import torch
from transformers import AutoModel, DebertaV2Config

from ocrrlib.encoders import DEFAULT_ENCODER, PAPER_BACKBONE, load_backbone
from ocrrlib.systems import LORA
from ocrrlib.systems.lora import Classifier

# As published with the model; its weights are not needed to count them.
DEBERTA_V3_LARGE = dict(
    vocab_size=128100,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    relative_attention=True,
    position_buckets=256,
    max_relative_positions=-1,
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    pos_att_type=["p2c", "c2p"],
    position_biased_input=False,
    type_vocab_size=0,
)


def count_parameters(n_classes=77):
    """Parameters of both backbones with adapters and a head: frozen, of adapters, of the head, trained in all."""
    adapter, rows = [LORA[name] for name in ("rank", "alpha", "dropout")], []
    with torch.device("meta"):  # shapes only
        large = Classifier(AutoModel.from_config(DebertaV2Config(**DEBERTA_V3_LARGE)), n_classes, *adapter)
    small = Classifier(load_backbone(DEFAULT_ENCODER), n_classes, *adapter)
    for name, model in {PAPER_BACKBONE: large, DEFAULT_ENCODER: small}.items():
        counts = {part: weights.numel() for part, weights in model.named_parameters()}
        adapters = sum(count for part, count in counts.items() if "lora_" in part)
        head = sum(count for part, count in counts.items() if part.startswith("head."))
        rows.append((name, sum(counts.values()) - adapters - head, adapters, head, adapters + head))
    return pd.DataFrame(rows, columns=["backbone", "frozen", "adapters", "head", "trained"])
