"""Functions for the comparison with the original."""
from .modeling import DecoderConfig, DecoderLM
from .objective import SmoothedObjective, score
from .optim import create_optimizer
from .packing import PackedDocuments, create_loader
from .tokens import VOCAB_SIZE

loss = SmoothedObjective()
metric = score
build_optimizer = create_optimizer
build_dataloader = create_loader
build_dataset = PackedDocuments


def build_model():
    return DecoderLM(DecoderConfig(vocab_size=VOCAB_SIZE))


def build_scheduler(optimizer):
    return optimizer._learning_rate
