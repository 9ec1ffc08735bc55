"""The benchmark: what oncue does, beside what its store could do at best, in the same run.

`python -m oncue_bench` measures it on this machine; docs/benchmarks.md tells how to read it. Every
single measurement runs in a process of its own (`child`), so that its peak memory is its own.
"""
