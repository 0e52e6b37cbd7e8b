from pathlib import Path

import pytest

from proof.shop import Shop, open_shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return open_shop(tmp_path_factory.mktemp("shop"), documents=400)


@pytest.fixture
def folder(shop: Shop) -> str:
    return str(Path(shop.folder))
