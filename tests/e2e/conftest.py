import pytest

from powermark.models import LanguageModel, load_model


@pytest.fixture(scope="session")
def smollm2() -> LanguageModel:
    return load_model("smollm2-135m")
