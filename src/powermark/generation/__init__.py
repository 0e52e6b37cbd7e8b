"""Texts from models and servers, and the prompts for them.

writing.py           Sampling, write_texts(), write_pairs(): texts of a model, as records
endpoint.py          Endpoint, ask(): texts of an OpenAI-compatible server
prompts.py           prompts_for(), read_prompts(), passages(): prompts from files and named sources
python_functions.py  python_functions(): prompts for code, from the standard library
records.py           Records: the JSONL file that a job appends to, and resumes from
"""
