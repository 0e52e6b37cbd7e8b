"""Measurements on texts: profiles, promises, false positives, quality, attacks.

record_profile.py         record_profile(): a profile of a model
record_served_profile.py  profile_endpoint(): a profile of the model behind a server
promise.py                promise_of(): what a spec promises; does it fit model and texts?
verify.py                 verify(): promise against measurement on a model's texts
verify_served.py          verify_answers(): the same on a server's texts
verification.py           Check, Verification: the result as a table, JSON or a page
estimates.py              Estimate, with its interval; texts_needed() to decide
audit.py                  audit(): false positives of a key on unmarked text
templates.py              templated(): texts made from templates, for audits
quality.py                quality(): BLEU, ROUGE-L, BERTScore, perplexity, distinct n-grams
attacks.py                substitute(), delete(), insert(), replace_block(), paraphrase(), ...
ngrams.py                 n-grams of many texts at once
"""
