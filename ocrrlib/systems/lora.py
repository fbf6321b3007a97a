"""Low-rank adapters on a transformer (paper, section 4.5; Hu et al. 2022)."""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy

from ocrrlib.encoders import DEFAULT_ENCODER, load_backbone, load_tokeniser
from ocrrlib.files import InputError
from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, TextSystem

# Names of the query and value projections in BERT, DeBERTa, RoBERTa, LLaMA, OPT and DistilBERT.
QUERIES_AND_VALUES = [
    "query",
    "value",
    "query_proj",
    "value_proj",
    "q_proj",
    "v_proj",
    "q_lin",
    "v_lin",
]


@contextmanager
def one_thread():
    """Use one thread on a CPU, as sums depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def torch_seed(seed):
    """Seed torch's draws in a block; draws outside of it are not changed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


class Classifier(torch.nn.Module):
    """An adapted backbone and a linear head over its first token; adapters and head are new.

    Raises ``InputError`` if the backbone has none of the projections that are adapted.
    """

    def __init__(self, backbone, n_classes, rank, alpha, dropout):
        super().__init__()
        hidden = backbone.config.hidden_size
        config = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=QUERIES_AND_VALUES
        )
        with warnings.catch_warnings():
            # peft asks by the old name.
            warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`")
            try:
                self.backbone = get_peft_model(backbone, config)
            except ValueError as error:
                kind = type(backbone).__name__
                raise InputError(f"{kind} has none of the layers {QUERIES_AND_VALUES}") from error
        self.head = torch.nn.Linear(hidden, n_classes)

    def forward(self, tokens, mask):
        """Logits (m, C) of token rows (m, length), where ``mask`` is true."""
        fast = tokens.is_cuda and torch.cuda.is_bf16_supported()
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=fast):
            first = self.backbone(input_ids=tokens, attention_mask=mask).last_hidden_state[:, 0]
        return self.head(first.float())

    def learnt(self):
        """Adapters and head, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}


def tokenise(X, backbone, max_length):
    """Token numbers (n, max_length) int64 of sentences (n,), and the length of each, (n,)."""
    settings = dict(
        truncation=True, padding="max_length", max_length=max_length, return_tensors="np"
    )
    read = load_tokeniser(backbone)(X.tolist(), **settings)
    return read["input_ids"], read["attention_mask"].sum(axis=1)


def by_length(lengths, rows, size):
    """Batches of ``rows`` of similar length, so that little is padded."""
    order = rows[np.argsort(lengths[rows], kind="stable")]
    return [order[start : start + size] for start in range(0, len(order), size)]


def logits(model, tokens, lengths):
    """Logits (m, C) of token rows, cut to the longest of them."""
    device = model.head.weight.device
    longest = int(lengths.max())
    cut = torch.tensor(tokens[:, :longest], device=device)
    mask = torch.tensor(np.arange(longest) < lengths[:, None], device=device)
    return model(cut, mask)


def untrained(backbone, n_classes, seed, rank, alpha, dropout, device):
    """A classifier with fresh adapters and head, the same for the same seed."""
    with torch_seed(seed):
        return Classifier(load_backbone(backbone), n_classes, rank, alpha, dropout).to(device)


class Training:
    """The initial training with AdamW, one epoch after the other, and the state after each.

    ``adapter`` is rank, alpha and dropout.  Rows are shuffled, then sorted by length
    within stretches of 50 batches, and the batches shuffled again.
    """

    def __init__(
        self, X, y, n_classes, seed, backbone, adapter, max_length, lr, weight_decay, batch, device
    ):
        self.tokens, self.lengths = tokenise(X, backbone, max_length)
        self.y = torch.tensor(y, device=device)
        self.seed = seed
        self.batch = batch
        self.model = untrained(backbone, n_classes, seed, *adapter, device).train()
        self.optimiser = torch.optim.AdamW(
            self.model.learnt().values(), lr=lr, weight_decay=weight_decay
        )
        self.states = [self._state()]

    def after(self, epochs):
        """Adapters and head after a number of epochs, as a dictionary of tensors."""
        while len(self.states) <= epochs:
            epoch = [self.seed, len(self.states)]
            with torch_seed(np.random.SeedSequence(epoch).generate_state(1)[0].item()):
                self._epoch(np.random.default_rng(epoch))
            self.states.append(self._state())
        return self.states[epochs]

    def _state(self):
        return {name: p.detach().clone() for name, p in self.model.learnt().items()}

    def _epoch(self, rng):
        order = rng.permutation(len(self.y))
        size = 50 * self.batch
        batches = []
        for start in range(0, len(order), size):
            batches += by_length(self.lengths, order[start : start + size], self.batch)
        for place in rng.permutation(len(batches)):
            rows = batches[place]
            self.optimiser.zero_grad()
            out = logits(self.model, self.tokens[rows], self.lengths[rows])
            cross_entropy(out, self.y[rows]).backward()
            self.optimiser.step()


training = shared(keep=1)(Training)  # variants go on from where the last one stopped


@dataclass(eq=False)
class LoRA(TextSystem):
    """Low-rank adapters and a head on a transformer; it reads sentences, not embeddings."""

    backbone: str = DEFAULT_ENCODER  #: the packaged default, a folder, or a name on the hub
    rank: int = 8  #: of the adapters, on all query and value projections
    alpha: float = 16
    dropout: float = 0.05
    epochs: int = 2  #: of the initial training with AdamW
    fit_lr: float = 2e-4
    weight_decay: float = 1e-4
    batch: int = 16
    max_length: int = 64  #: tokens of a sentence that are read
    lr: float = 5e-4  #: step of plain SGD per correction, on adapters and head
    #: whether a correction's step is taken in training mode, as in the paper
    correct_with_dropout: bool = True
    replay: int = 0  #: remembered rows that join each correction
    memory: int = 0  #: initial rows that are remembered
    ahead = 1  # sentences cost as much together

    @one_thread()
    def _fit(self, X, y):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        adapter = self.rank, self.alpha, self.dropout
        model = self.n_classes, self.seed, self.backbone, adapter, self.max_length
        optimiser = self.fit_lr, self.weight_decay, self.batch
        try:
            trained = training(X, y, *model, *optimiser, device).after(self.epochs)
        except BaseException:
            training.forget()  # it may have stopped in the middle of an epoch
            raise
        self.model = untrained(self.backbone, self.n_classes, self.seed, *adapter, device)
        self.model.load_state_dict(trained, strict=False)
        self.rng = np.random.default_rng(self.seed)
        kept = self.rng.choice(len(X), min(self.memory, len(X)), replace=False)
        tokens, lengths = tokenise(X, self.backbone, self.max_length)
        self.remembered = tokens[kept], lengths[kept], y[kept]

    def _scores(self, X):
        return self._read(*tokenise(X, self.backbone, self.max_length))

    def _follow(self, Q):
        tokens, lengths = tokenise(Q, self.backbone, self.max_length)
        return lambda rows: self._read(tokens[rows], lengths[rows])

    @one_thread()
    @torch.inference_mode()
    def _read(self, tokens, lengths):
        self.model.eval()
        scores = np.empty((len(tokens), self.n_classes))
        for rows in by_length(lengths, np.arange(len(tokens)), 64):
            scores[rows] = logits(self.model, tokens[rows], lengths[rows]).cpu().numpy()
        return scores

    def _answer(self, scores):
        return scores.argmax(axis=1)

    @one_thread()
    def _correct(self, x, y):
        old_tokens, old_lengths, old_labels = self.remembered
        n_old = len(old_labels)
        again = self.rng.choice(n_old, min(self.replay, n_old), replace=False)
        new_tokens, new_lengths = tokenise(np.array([x]), self.backbone, self.max_length)
        tokens = np.concatenate([new_tokens, old_tokens[again]])
        lengths = np.concatenate([new_lengths, old_lengths[again]])
        labels = np.concatenate([[y], old_labels[again]])
        self.model.train(self.correct_with_dropout)
        self.model.zero_grad()
        # Of the dropout, so that a run can be repeated.
        with torch_seed(self.seed * 1_000_003 + self.corrections - 1):
            for rows in by_length(lengths, np.arange(len(labels)), 8):
                out = logits(self.model, tokens[rows], lengths[rows])
                targets = torch.tensor(labels[rows], device=out.device)
                loss = cross_entropy(out, targets, reduction="sum")
                (loss / len(labels)).backward()
        with torch.no_grad():
            for p in self.model.learnt().values():
                p -= self.lr * p.grad

    def storage(self) -> Storage:
        """Adapters, head and remembered rows.

        The frozen backbone is not counted, nor is the encoder of systems that read embeddings.
        """
        learnt = sum(p.numel() for p in self.model.learnt().values())
        kept = sum(part.nbytes for part in self.remembered)
        return Storage(4 * learnt + kept, len(self.remembered[2]), learnt)
