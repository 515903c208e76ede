"""Times of products on a GPU that one can believe: arms interleaved round by round, checked before
and after, in a process that is watched. `loopir-triton bench` is its tool."""
