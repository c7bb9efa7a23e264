import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Tiny models are faster on one thread, and nothing may ask the network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
