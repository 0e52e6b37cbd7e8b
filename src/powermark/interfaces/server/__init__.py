"""The web page and the REST interface: they translate requests and compute nothing of their own.

run.py              run(), listen(): the socket, uvicorn, the shutdown
connections.py      BoundedProtocol: limits on open and slow connections
app.py              create_app(): routes, page and API documentation
guard.py            Guard: limits on requests, headers of answers, the log line
routes.py           the routes, and who may use them
access.py           Tokens, Client, Rates: access tokens, scopes, rate limits
schemas.py          the bodies of requests
refusals.py         Refusal: errors as JSON
service.py          Service: the work behind the routes; new_service()
limits.py           Limits, Workers: bounds, and threads with a bounded queue
library.py          Library: specs, keys, profiles and examples, read once
examples.py         load_examples(): texts for every client, free of secrets
design_process.py   Designer: the child process for designs, seen from the server
design_worker.py    Designs: plans, specs, powers and curves, inside that process
writer.py           Writer: generates text token by token
answers.py          rendered(): large JSON answers
telemetry.py        Log, Metrics
static/             the page
"""
