"""Kernels of tiles of every rank, masks and reductions along each axis, exact on small integers."""
# ruff: noqa: E501  a header of the IR is one line

#: reductions that Triton has no function for, of small integers, booleans and floats
AXES = """\
kernel @axes(X: i8[4, R, C], B: bool[R, C], F: f64[R, C], L: i64[R, C], out P: i8[R, C], out A: i8[4, C], out O: i8[4, R], out U: bool[R], out V: bool[C], out S: f64[R], out W: i64[C], out H: i16[R])
    where R = 8, C = 16 {
  grid (t) in [1] {
    alloc x: register i8[4, R, C]
    alloc p: register i8[R, C]
    alloc a: register i8[4, C]
    alloc o: register i8[4, R]
    alloc b: register bool[R, C]
    alloc u: register bool[R]
    alloc v: register bool[C]
    alloc f: register f64[R, C]
    alloc s: register f64[R]
    alloc l: register i64[R, C]
    alloc w: register i64[C]
    alloc h: register i16[R]
    load x, X[0 +: 4, 0 +: R, 0 +: C]
    load b, B[0 +: R, 0 +: C]
    load f, F[0 +: R, 0 +: C]
    load l, L[0 +: R, 0 +: C]
    ewise p = prod(x * 100, 0)
    ewise a = reduce_and(x, 1)
    ewise o = reduce_or(x, 2) + 1
    ewise u = reduce_and(or(b, cast(bool, f)), 1)
    ewise v = reduce_or(mask(b, 0, 0, 1, 0), 0)
    ewise s = prod(f, 1)
    ewise w = reduce_or(l, 0) + reduce_and(l, 0) * prod(l, 0)
    ewise h = prod(cast(i16, l) * 50, 1)
    store P[0 +: R, 0 +: C], p
    store A[0 +: 4, 0 +: C], a
    store O[0 +: 4, 0 +: R], o
    store U[0 +: R], u
    store V[0 +: C], v
    store S[0 +: R], s
    store W[0 +: C], w
    store H[0 +: R], h
  }
}
"""

#: masks of one, two and three axes, from constants, loop variables and sizes of the launch
MASKS = """\
kernel @masks(X: f32[4, R, C], Y: i8[C], Z: bf16[R, C], B: bool[C], out P: f32[4, R, C], out Q: i8[C], out S: bf16[R, C], out D: bool[C], out E: f64[3, C], out G: f32[R])
    where R = 8, C = 16, FAR = 4294967296 {
  grid (t) in [1] {
    alloc x: register f32[4, R, C]
    alloc y: register i8[C]
    alloc z: register bf16[R, C]
    alloc b: register bool[C]
    alloc e: register f64[C]
    alloc g: register f32[R]
    load x, X[0 +: 4, 0 +: R, 0 +: C]
    load y, Y[0 +: C]
    load z, Z[0 +: R, 0 +: C]
    load b, B[0 +: C]
    ewise g = amax(mask(amax(mask(x, 0, 1, 3, -inf), 0), 1, FAR - 5, FAR, 0 - 100), 1)
    ewise x = mask(mask(mask(x, 0, 0, 3, -1), 1, t - 2, 4, inf), 2, 5, LIMIT, 0.5) + mask(x, 2, 0, C, 7)
    ewise y = mask(y, 0, LIMIT - 7, 9, -128) + 1
    ewise z = mask(z, 1, t + 3, LIMIT, 3.5)
    ewise b = mask(b, 0, 0, LIMIT, 1)
    for i in 0 .. 3 {
      ewise e = mask(expand(3, 0), 0, i, 2, 9.0) + mask(cast(f64, y), 0, i * 4, 13, 1e+300)
      store E[i, 0 +: C], e
    }
    store P[0 +: 4, 0 +: R, 0 +: C], x
    store Q[0 +: C], y
    store S[0 +: R, 0 +: C], z
    store D[0 +: C], b
    store G[0 +: R], g
  }
}
""".replace("0 - 100", "-100.0")

#: parts of one, two and three axes, of parts, of sums
PARTS = """\
kernel @parts(X: f32[4, R, C], Y: i8[C], Z: bf16[R, C], B: bool[C], out P: f32[4, R, C // 4], out Q: i8[C // 2], out S: bf16[R // 2, C], out D: bool[C // 8], out E: f32[2, R, C], out G: f32[1])
    where R = 8, C = 16 {
  grid (t) in [1] {
    alloc x: register f32[4, R, C]
    alloc y: register i8[C]
    alloc z: register bf16[R, C]
    alloc b: register bool[C]
    alloc p: register f32[4, R, C // 4]
    alloc q: register i8[C // 2]
    alloc s: register bf16[R // 2, C]
    alloc d: register bool[C // 8]
    alloc e: register f32[2, R, C]
    alloc g: register f32[1]
    load x, X[0 +: 4, 0 +: R, 0 +: C]
    load y, Y[0 +: C]
    load z, Z[0 +: R, 0 +: C]
    load b, B[0 +: C]
    ewise p = part(x, 2, 3, 4) - part(x * 2 + 1, 2, 1, 4)
    ewise q = part(y, 0, 1, 2) * part(part(y, 0, 0, 1), 0, 0, 2)
    ewise s = part(z, 0, 1, 2)
    ewise d = and(part(b, 0, 5, 8), part(b, 0, 4, 8))
    ewise e = part(x, 0, 1, 2)
    ewise g = part(sum(sum(part(x, 2, 0, 2), 2), 0), 0, 7, 8)
    store P[0 +: 4, 0 +: R, 0 +: C // 4], p
    store Q[0 +: C // 2], q
    store S[0 +: R // 2, 0 +: C], s
    store D[0 +: C // 8], d
    store E[0 +: 2, 0 +: R, 0 +: C], e
    store G[0 +: 1], g
  }
}
"""

#: tiles of one element in every statement
SCALARS = """\
kernel @scalars(X: f32[M, N], H: f16[N], I: i8[N], out Y: f32[M], out Z: f32[M, 4], out T: f32[1], out J: i8[M], out K: f16[M])
    where M = 5, N = 7
    requires zeroed(T) {
  grid (t) in [M] {
    alloc acc: local f32[]
    alloc last: local f32[]
    alloc x: local f32[]
    alloc h: shared f16[]
    alloc i: register i8[]
    alloc row: register f32[4]
    fill acc, 1
    ewise last = 0.5
    fill i, 100
    reduce (acc: add) {
      for k in 0 .. N {
        load x, X[t, k]
        coop_load h, H[k + t - 2] masked else 2
        ewise acc = acc + x * cast(f32, h)
      }
    }
    for l in 0 .. N {
      ewise x = last
      ewise last = acc + k_mask(x)
      if t > 2 {
        load i, I[l]
        ewise i = max(i, 2) * 3
      }
    }
    ewise row = acc
    ewise row = row - last * expand(amin(row, 0), 0) + cast(f32, i)
    store Y[t], acc
    store Z[t, 0 +: 4], row
    store J[t], i
    store K[t], h
    atomic add T[t - t], acc
  }
}
""".replace("k_mask(x)", "sum(mask(expand(x, 0), 0, l, 3, 2.0), 0)")

#: sums along each axis of three, and results that fewer axes give
CUBE = """\
kernel @cube(X: f32[A, B, C], V: f32[C], out P: f32[B, C], out Q: f32[A, C], out R: f32[A, B], out S: f32[A, B, C])
    where A = 6, B = 5, C = 19, BA = 4, BB = 8, BC = 16 {
  grid (ti, tj, tk) in [ceildiv(A, BA), ceildiv(B, BB), ceildiv(C, BC)] {
    alloc x: shared f32[BA, BB, BC]
    alloc v: register f32[BC]
    alloc p: register f32[BB, BC]
    alloc q: register f32[BA, BC]
    alloc r: register f32[BA, BB]
    load v, V[tk * BC +: BC] masked
    load x, X[ti * BA +: BA, tj * BB +: BB, tk * BC +: BC] masked
    ewise x = mask(x * expand(expand(v, 0), 0) + 1, 2, tk * BC, C, 0) - expand(expand(v, 0), 1)
    ewise p = sum(mask(x, 0, ti * BA, A, 0), 0)
    ewise q = amin(x, 1)
    ewise r = amax(x, 2)
    if ti == 0 {
      store P[tj * BB +: BB, tk * BC +: BC], p masked
    }
    store Q[ti * BA +: BA, tk * BC +: BC], q masked
    if tk == 1 {
      store R[ti * BA +: BA, tj * BB +: BB], r masked
      ewise x = expand(r, 2)
    } else {
      ewise x = expand(expand(sum(sum(x, 2), 1), 1), 2)
    }
    store S[ti * BA +: BA, tj * BB +: BB, tk * BC +: BC], x masked
  }
}
"""

#: four axes of the grid, in an order that groups the last two
FOUR = """\
kernel @four(X: i32[A, B, M, N], out Y: i32[A, B, M, N])
    where A = 3, B = 2, M = 9, N = 7, T = 4 {
  grid (a) in [A] {
    grid (b, ti, tj) in [B, ceildiv(M, T), ceildiv(N, T)] order grouped(2) {
      alloc x: register i32[T, T]
      alloc one: register i32[]
      load x, X[a, b, ti * T +: T, tj * T +: T] masked
      load one, X[a, B - 1 - b, ti, 0]
      ewise x = x + one * 10
      store Y[a, b, ti * T +: T, tj * T +: T], x masked
    }
  }
}
"""

KERNELS = {
    "AXES": AXES,
    "MASKS": MASKS,
    "PARTS": PARTS,
    "SCALARS": SCALARS,
    "CUBE": CUBE,
    "FOUR": FOUR,
}

#: of what is open in some of them
SIZES = {"LIMIT": 12}
