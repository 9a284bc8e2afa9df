"""lstm: the next token at every token of a sequence, such as the next character of a text."""

from torch import Tensor, nn

from adagq.core.errors import ConfigError
from adagq.learners.models.registry import MODELS, ModelOptions


class NextTokenLSTM(nn.Module):
    """Embedding, one LSTM layer, a linear head. Scores are (samples, classes, length), as cross entropy takes them."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        embedded = max(1, width // 4)
        self.embedding = nn.Embedding(classes, embedded)
        self.lstm = nn.LSTM(embedded, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        scores: Tensor = self.head(hidden)
        return scores.transpose(1, 2)


@MODELS.register("lstm")
def lstm(options: ModelOptions) -> nn.Module:
    """Return the model; `width` (128) are the hidden units, a quarter of them the size of an embedding."""
    options.no_stem("lstm")
    if not options.tokens:
        raise ConfigError(
            f"model lstm reads tokens, such as data = 'characters'; samples of shape {options.shape} are not"
        )
    return NextTokenLSTM(options.classes, options.width_or(128))
