"""The interfaces: command line, web page and REST. No other package imports from here.

cli/               the ``powermark`` command
server/            ``powermark serve``: the web page and the REST interface
signal_options.py  signal models from options or fields
generations.py     the signature of generated records
"""
