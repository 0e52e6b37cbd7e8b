"""Adapters: one file per engine, on a shared core.

transformers.py  WatermarkConfig and WatermarkProcessor for generate()
vllm.py          logits processors for vLLM's two model runners
vllm_guard.py    refuses vLLM set-ups that would skip the processor
sglang.py        custom logit processor for SGLang
llama_cpp.py     hook and server for llama-cpp-python
torch.py         scheme pm1 on tensors; the choice of host or device
batch.py         contexts and biases of an engine's batch
serving.py       Marks: the marks of a server, and which one a request gets
settings.py      environment variables and request fields
gate.py          middleware that refuses misplaced mark fields
kl_record.py     KlRecord: the effect of a mark by step
row_groups.py    several marks in one batch of generate()
"""
