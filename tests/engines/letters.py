"""A tokenizer for tests that need no model, and so no torch."""


class Letters:
    """The least tokenizer that a mark needs: ids are letters."""

    def __init__(self, size: int, pad_token_id: int | None = None) -> None:
        self.size, self.pad_token_id = size, pad_token_id

    def __len__(self) -> int:
        return self.size

    def get_vocab(self) -> dict[str, int]:
        return {str(token): token for token in range(self.size)}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) % self.size for letter in text]
