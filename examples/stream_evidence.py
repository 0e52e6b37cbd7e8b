"""Ask an OpenAI-compatible server for a text and watch the evidence grow while it streams.

    python examples/stream_evidence.py --url http://127.0.0.1:8000/v1 --spec s.json --key k.key \
        "The city council met on Tuesday"

Needs a server that returns token ids (vLLM does); ``powermark detect --stream`` reads text.
"""

import argparse
import sys

from powermark import StreamDetector, Watermark
from powermark.generation.endpoint import Endpoint


def main() -> None:
    """Stream one completion: text on stdout, evidence on stderr."""
    options = argparse.ArgumentParser()
    options.add_argument("prompt")
    options.add_argument("--url", default="http://127.0.0.1:8000/v1")
    options.add_argument("--spec", required=True)
    options.add_argument("--key")
    options.add_argument("--mark", help="name of the mark to ask for; the server's default if none")
    options.add_argument("--n-tokens", type=int, default=200)
    options.add_argument("--temperature", type=float, default=1.0)
    given = options.parse_args()

    mark = Watermark.load(given.spec, given.key)
    alpha = mark.spec.plan.alpha if mark.spec.plan else 0.01
    evidence = StreamDetector(mark, alpha=alpha)
    server = Endpoint(given.url)
    request = {
        "model": server.first_model(),
        "prompt": given.prompt,
        "max_tokens": given.n_tokens,
        "temperature": given.temperature,
        "return_token_ids": True,
    }
    if given.mark:
        request["vllm_xargs"] = {"powermark": given.mark}
    said = False
    for piece in server.stream(request):
        sys.stdout.write(piece.get("text") or "")
        sys.stdout.flush()
        evidence.feed(piece.get("token_ids") or [])
        if evidence.detected and not said:
            sys.stderr.write(f"\n[marked: enough evidence at token {evidence.detected_at}]\n")
            said = True
    sys.stderr.write(
        f"\n{evidence.green} of {evidence.scored} counted tokens green; "
        f"most evidence {evidence.max_log_e:.2f} nats, {'' if said else 'not '}marked\n"
    )


if __name__ == "__main__":
    main()
