"""The client of servers: addresses, API keys, redirects, and failures."""

import socket
import threading

import pytest

from powermark.errors import EngineProblem, InvalidInput
from powermark.generation.endpoint import Answers, Endpoint
from tests.generation.completions import running


def test_invalid_addresses() -> None:
    with pytest.raises(InvalidInput, match="an http or https address; got 'ftp://x'"):
        Endpoint("ftp://x")
    for odd in (
        "http://[",
        "http://127.0.0.1:x/v1",
        "http://127.0.0.1:0",
        "http:// x",
        "http://\n",
    ):
        with pytest.raises(InvalidInput, match="an http or https address"):
            Endpoint(odd)
    with pytest.raises(InvalidInput, match="must not contain a name or password") as caught:
        Endpoint("http://me:secret@127.0.0.1/v1")
    assert "secret" not in str(caught.value)
    with pytest.raises(EngineProblem, match="cannot reach"):
        Endpoint("http://127.0.0.1:1/v1", timeout=1.0).first_model()


def test_speed_is_compared_round_by_round() -> None:
    answers = Answers(speeds={"marked": [90.0, 40.0, 97.0], "unmarked": [100.0, 50.0, 100.0]})
    assert answers.speed() == {"marked": 90.0, "unmarked": 100.0, "lost": pytest.approx(0.1)}
    assert Answers(speeds={"marked": [3.0], "unmarked": []}).speed() == {"marked": 3.0}
    silent = Answers(speeds={"marked": [3.0], "unmarked": [0.0]}).speed()
    assert silent == {"marked": 3.0, "unmarked": 0.0}


def test_a_secret_that_no_header_can_carry_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Endpoint("http://127.0.0.1:1/v1", timeout=1.0)
    for secret in ("sk-12\n34", "sk-\u20ac", "sk-\x00"):
        monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": secret})
        with pytest.raises(InvalidInput, match="OPENAI_API_KEY has characters") as caught:
            asked.first_model()
        assert "sk-" not in str(caught.value)
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": "sk-good\n"})  # as files end
    with pytest.raises(EngineProblem, match="cannot reach"):
        asked.first_model()


def test_a_key_does_not_follow_a_redirect_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with running() as server, running() as other:
        asked = Endpoint(f"http://127.0.0.1:{server.server_port}/v1", timeout=5.0)
        for host in ("127.0.0.1", "localhost"):
            server.moved = f"http://{host}:{other.server_port}/v1/models"
            with pytest.raises(EngineProblem, match=f"to another server, {server.moved}"):
                asked.first_model()
        assert (server.secret, other.secret) == ("Bearer canary", None)
        server.moved = "/moved"  # on the same server
        assert asked.first_model() == "words"


def test_other_servers_are_reported() -> None:
    for answer in (b"SSH-2.0\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]

            def once(answer: bytes = answer, listener: socket.socket = listener) -> None:
                peer, _ = listener.accept()
                with peer:
                    peer.recv(1000)
                    peer.sendall(answer)

            thread = threading.Thread(target=once)
            thread.start()
            with pytest.raises(EngineProblem, match="cannot reach"):
                Endpoint(f"http://127.0.0.1:{port}/v1", timeout=5.0).first_model()
            thread.join()
