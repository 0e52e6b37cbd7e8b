"""Scan a corpus for marks: one row per document and mark, on one machine or a Ray cluster.

A scan reads files in portions, portions in batches of documents, and writes a partition of rows
after every 64 batches. A scan that was interrupted resumes after the last batch it saved.

    scan.py            scan(): the whole flow, from paths to a summary
    job.py             ScanJob: marks, keys, tokenizer, detector, columns; contains no secret
    sources.py         find_sources(), portions(): the files of a corpus
    readers.py         read(): JSONL, CSV, text and Parquet files as batches of documents
    parquet.py         read_parquet(), with bounds on memory
    parquet_pages.py   sizes of Parquet pages, from their headers
    batches.py         Batch, Reject: the documents and the rejected rows
    rejects.py         Listing: which rejected rows are listed, and which only counted
    scanner.py         Scanner: a batch to a table of rows; SCHEMA: the columns
    workers.py         scan_local(), scan_ray(): threads, or a Ray cluster
    output.py          Output: the folder of partitions, and how a scan resumes
    storage.py         local and remote files with retries; Folder: whole files or none
    sketches.py        Sketches: MinHash and sampled n-grams of documents
    ngram_kernels.py   their loops, as machine code
    copies.py          Copies: near-identical documents, and the effective number of the rest
    summary.py         summarise(): share of marked documents, calls, copies
"""
