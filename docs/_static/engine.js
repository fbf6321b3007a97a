// The stream of Banking77 in the reader's browser: the benchmark as docs/protocol.md defines it.
// live.js runs this function in a worker, with the data that paper/live.py wrote.
"use strict";

function engine() {
  const D = 384; // values of a row
  const K = 5; // neighbours that may vote
  const MARGIN = 0.05; // cosine distance from the best one within which they do
  const SAME = 1 - 1e-5; // cosine from which two vectors are one
  const LEAST_SPREAD = 0.02; // of class means, in the proposed system
  const MOST = 99; // a lead at most
  const SPARE = 20; // classes that the reader may add
  let data, X, nearest, C; // X: unit rows (n, D), training rows first; C: classes
  const range = (n) => Int32Array.from({ length: n }, (_, i) => i);
  const row = (A, i, length = D) => A.subarray(i * length, i * length + length);

  function dot(x, y) {
    let sum = 0;
    for (let k = 0; k < x.length; k++) sum += x[k] * y[k];
    return sum;
  }
  function add(x, factor, y) {
    for (let k = 0; k < x.length; k++) x[k] += factor * y[k];
  }
  function logSumExp(values) {
    let most = -Infinity, sum = 0;
    for (const value of values) if (value > most) most = value;
    for (const value of values) sum += Math.exp(value - most);
    return most + Math.log(sum);
  }

  // Products (m, n) of the named rows of A and the n rows of B, four by two: few values are read.
  function products(A, rows, B, n) {
    const P = new Float64Array(rows.length * n);
    const last = rows.length - 1;
    for (let i = 0; i <= last; i += 4) {
      const i1 = Math.min(i + 1, last), i2 = Math.min(i + 2, last), i3 = Math.min(i + 3, last);
      const a0 = rows[i] * D, a1 = rows[i1] * D, a2 = rows[i2] * D, a3 = rows[i3] * D;
      for (let j = 0; j < n; j += 2) {
        const j1 = Math.min(j + 1, n - 1);
        const b0 = j * D, b1 = j1 * D;
        let s0 = 0, s1 = 0, s2 = 0, s3 = 0; // with row j
        let t0 = 0, t1 = 0, t2 = 0, t3 = 0; // with row j1
        for (let k = 0; k < D; k++) {
          const b = B[b0 + k], c = B[b1 + k];
          const x0 = A[a0 + k], x1 = A[a1 + k], x2 = A[a2 + k], x3 = A[a3 + k];
          s0 += x0 * b; s1 += x1 * b; s2 += x2 * b; s3 += x3 * b;
          t0 += x0 * c; t1 += x1 * c; t2 += x2 * c; t3 += x3 * c;
        }
        P[i * n + j] = s0; P[i1 * n + j] = s1; P[i2 * n + j] = s2; P[i3 * n + j] = s3;
        P[i * n + j1] = t0; P[i1 * n + j1] = t1; P[i2 * n + j1] = t2; P[i3 * n + j1] = t3;
      }
    }
    return P;
  }

  // Rows as `widen` in ocrrlib/embeddings.py gives them: multiples of 2^-24. Float64 holds the
  // products of two and their sums exactly, so cosines are the same in any order.
  function widen(halves) {
    const rows = Float64Array.from(halves);
    const shift = 1.5 * 2 ** 52; // adding it rounds to a whole number, halves to even
    for (let i = 0; i < rows.length / D; i++) {
      const x = row(rows, i);
      const length = Math.sqrt(dot(x, x));
      for (let k = 0; k < D; k++) x[k] = ((x[k] / length) * 2 ** 24 + shift - shift) / 2 ** 24;
    }
    return rows;
  }

  // Covariance (D, D) of residuals, rows less the mean of their class, shrunk as by Ledoit and Wolf.
  function covariance(rows, labels) {
    const means = new Float64Array(C * D);
    const counts = new Float64Array(C);
    labels.forEach((label) => (counts[label] += 1));
    labels.forEach((label, i) => add(row(means, label), 1 / counts[label], row(X, rows[i])));
    const S = new Float64Array(D * D);
    let fourth = 0; // sum of |r|^4
    for (let i = 0; i < rows.length; i++) {
      const r = row(X, rows[i]).slice();
      add(r, -1, row(means, labels[i]));
      fourth += dot(r, r) ** 2;
      for (let j = 0; j < D; j++) {
        const factor = r[j] / rows.length;
        for (let k = 0, at = j * D; k <= j; k++, at++) S[at] += factor * r[k];
      }
    }
    S.forEach((value, at) => (S[(at % D) * D + Math.floor(at / D)] ||= value)); // the other half
    let trace = 0;
    for (let j = 0; j < D; j++) trace += S[j * D + j];
    const square = dot(S, S);
    const b2 = (fourth / rows.length - square) / rows.length;
    const share = Math.min(1, Math.max(0, b2 / (square - trace ** 2 / D)));
    const shrunk = S.map((value) => (1 - share) * value);
    for (let j = 0; j < D; j++) shrunk[j * D + j] += (share * trace) / D;
    return shrunk;
  }

  // Inverse of a positive definite matrix (D, D) by sweeps, each of one row and column.
  function inverse(A) {
    for (let p = 0; p < D; p++) {
      const x = row(A, p).slice();
      const pivot = x[p];
      for (let i = 0; i < D; i++) add(row(A, i), -x[i] / pivot, x);
      x[p] = -1;
      for (let i = 0; i < D; i++) A[p * D + i] = A[i * D + p] = x[i] / pivot;
    }
    return A.map((value) => -value);
  }

  // Highest cosines (m, C) of queries to the training rows of known classes; -Infinity for others.
  function classCosines(queries, known) {
    const classes = data.classes.length;
    const members = Array.from({ length: classes }, () => []);
    for (let i = 0; i < data.train; i++) members[data.labels[i]].push(i);
    const cosines = new Float64Array(queries.length * C).fill(-Infinity);
    queries.forEach((number, query) => known.forEach((c) => {
      const place = nearest[number * classes + c];
      cosines[query * C + c] = dot(row(X, number), row(X, members[c][place]));
    }));
    return cosines;
  }

  // The system `substrate`: entries, and the nearest K of each query, best and newest first.
  function substrate(queries, entries, labels) {
    const cosines = new Float64Array(queries.length * K).fill(-Infinity);
    const slots = new Int32Array(queries.length * K).fill(-1);
    function insert(query, cosine, slot) {
      const before = (at) => cosine > cosines[at] || (cosine === cosines[at] && slot > slots[at]);
      let at = query * K + K - 1;
      if (!before(at)) return;
      for (; at > query * K && before(at - 1); at--) {
        cosines[at] = cosines[at - 1];
        slots[at] = slots[at - 1];
      }
      cosines[at] = cosine;
      slots[at] = slot;
    }
    const compare = (query, slot) => (
      insert(query, dot(row(X, queries[query]), row(X, entries[slot])), slot));
    // Classes with the highest cosines first, until none can have one of the K best.
    function* search(best, known) {
      const own = Array.from({ length: C }, () => []);
      labels.forEach((label, slot) => own[label].push(slot));
      for (let query = 0; query < queries.length - 1; query++) {
        if (query % 128 === 0) yield { share: query / queries.length };
        const most = row(best, query, C);
        for (const c of [...known].sort((a, b) => most[b] - most[a])) {
          if (most[c] < cosines[query * K + K - 1]) break;
          for (const slot of own[c]) compare(query, slot);
        }
      }
    }
    function place(query) { // anew
      row(cosines, query, K).fill(-Infinity);
      row(slots, query, K).fill(-1);
      entries.forEach((_, slot) => compare(query, slot));
    }
    // The neighbours [cosine, class, row], and how many of them vote: they are within the margin.
    function near(query) {
      const near = [...row(slots, query, K)].map((slot, i) => (
        [cosines[query * K + i], labels[slot], entries[slot]]));
      return { near, votes: near.filter(([cosine]) => cosine >= near[0][0] - MARGIN).length };
    }
    // Most votes; of equal ones the class met first, nearest and newest.
    function answer(query) {
      const found = near(query);
      const votes = found.near.slice(0, found.votes).map(([, label]) => label);
      const count = (label) => votes.filter((other) => other === label).length;
      return votes.reduce((best, label) => (count(label) > count(best) ? label : best));
    }
    function correct(query, label) {
      const slot = entries.push(queries[query]) - 1;
      labels.push(label);
      return [[row(X, queries[query]), (later, cosine) => insert(later, cosine, slot)]];
    }
    return { search, place, answer, correct, near };
  }

  // The proposed system, `ledger_lda`, in the symbols of ocrrlib/rivals/ledger_lda.py. The products
  // z . z' of whitened rows are (x - mu)^T A (x' - mu), with A the inverse of the covariance.
  function proposed(queries, first, firstLabels, known, best, { weights, head }) {
    const [alpha, beta, rho, sigma, eta] = weights;
    const entries = [...first];
    const labels = [...firstLabels];
    const n = entries.length;
    const mu = new Float64Array(D);
    entries.forEach((number) => add(mu, 1 / n, row(X, number)));
    const A = inverse(covariance(entries, labels));
    const counts = new Float64Array(C);
    const sums = new Float64Array(C * D); // of x - mu
    labels.forEach((label, i) => {
      counts[label] += 1;
      add(row(sums, label), 1, row(X, entries[i]));
      add(row(sums, label), -1, mu);
    });
    const U = products(sums, range(C), A, D); // A sums
    const norms = Float64Array.from(range(C), (c) => dot(row(sums, c), row(U, c)));
    const prior = 1 / Math.max(spread(), LEAST_SPREAD); // 1 / b
    const cosines = best.slice();
    const along = new Float64Array(queries.length * C); // z times the sums of z
    const logits = new Float64Array(queries.length * known.length);
    const met = [...known];
    const isKnown = new Uint8Array(C);
    known.forEach((c) => (isKnown[c] = 1));
    look(range(queries.length - 1));

    function spread() { // of class means, less their noise
      const middle = new Float64Array(D);
      let squares = 0, noise = 0;
      known.forEach((c) => {
        add(middle, 1 / (counts[c] * known.length), row(sums, c));
        squares += norms[c] / counts[c] ** 2;
        noise += 1 / counts[c] / known.length;
      });
      squares -= known.length * dot(middle, products(middle, [0], A, D));
      return squares / Math.max(known.length - 1, 1) / D - noise;
    }
    function look(places) { // at queries: what depends on them alone, or on sums
      const numbers = places.map((place) => queries[place]);
      const P = products(X, numbers, U, C);
      const H = products(X, numbers, head, known.length);
      const bias = head.subarray(known.length * D);
      const middle = products(mu, [0], U, C);
      places.forEach((query, i) => {
        for (let c = 0; c < C; c++) along[query * C + c] = P[i * C + c] - middle[c];
        known.forEach((_, k) => {
          logits[query * known.length + k] = H[i * known.length + k] + bias[k];
        });
      });
    }
    function place(query) { // anew
      look(Int32Array.of(query));
      const most = row(cosines, query, C).fill(-Infinity);
      const x = row(X, queries[query]);
      entries.forEach((number, slot) => {
        most[labels[slot]] = Math.max(most[labels[slot]], dot(x, row(X, number)));
      });
    }
    function correct(query, y) {
      const x = row(X, queries[query]);
      const v = x.map((value, j) => value - mu[j]);
      const u = products(A, range(D), v, 1);
      norms[y] += 2 * dot(v, row(U, y)) + dot(u, v);
      add(row(U, y), 1, u);
      if (!counts[y]) met.push(y);
      counts[y] += 1;
      entries.push(queries[query]);
      labels.push(y);
      const middle = dot(mu, u);
      return [
        [u, (later, value) => (along[later * C + y] += value - middle)],
        [x, (later, value) => {
          cosines[later * C + y] = Math.max(cosines[later * C + y], value);
        }],
      ];
    }
    // Log-probabilities (C,); -Infinity where a class is impossible.
    function logs(query) {
      const most = row(cosines, query, C);
      const fresh = Math.log(known.length / Math.max(met.length - known.length, 1)); // log pi
      const a = new Float64Array(C).fill(-Infinity);
      const b = new Float64Array(known.length);
      const scores = new Float64Array(C);
      for (const c of met) {
        const held = counts[c] + prior;
        scores[c] = along[query * C + c] / held - norms[c] / held ** 2 / 2;
        a[c] = alpha * scores[c] + beta * most[c] + (isKnown[c] ? 0 : fresh);
      }
      const first = query * known.length;
      known.forEach((c, k) => {
        b[k] = rho * scores[c] + sigma * most[c] + eta * logits[first + k];
      });
      const total = logSumExp(Float64Array.from(known, (c) => a[c])) - logSumExp(b);
      known.forEach((c, k) => (a[c] = total + b[k]));
      const copied = met.some((c) => most[c] >= SAME);
      if (copied) for (const c of met) if (most[c] < SAME) a[c] = -Infinity;
      const sum = logSumExp(a);
      return a.map((value) => value - sum);
    }
    // The likeliest class; what is equal to 9 decimals is equal, and the lowest id wins.
    const answer = (query) => highest(logs(query).map((value) => Math.round(value * 1e9)));
    const highest = (values) => (
      values.reduce((most, value, c) => (value > values[most] ? c : most), 0));
    function top(query) { // the three likeliest classes, and their probabilities
      const likely = [...logs(query)].map((value, c) => [c, Math.exp(value)]);
      return likely.sort((a, b) => b[1] - a[1]).slice(0, 3);
    }
    // Of a row: its best new and its best known class, and the lead of the new one.
    function lead(query) {
      const a = logs(query);
      const [fresh, old] = [0, 1].map((kind) => (
        highest(a.map((value, c) => (isKnown[c] === kind ? value : -Infinity)))));
      const lead = a[fresh] - a[old]; // NaN where neither is possible
      return { fresh, old, lead: Math.max(-MOST, Math.min(MOST, lead)) };
    }
    return { place, answer, correct, top, lead };
  }

  // The benchmark: predict, correct mistakes as the policy says, test at every 25th item.
  function stream({ held, rows, n, novel }, coins, reader) {
    // n of the stream, then novel test rows, then original ones, and a place for a typed one
    const queries = Int32Array.from([...rows, 0]);
    const typed = rows.length;
    const truth = rows.map((number) => data.labels[number]);
    const entries = [...range(data.train)].filter((i) => !held.includes(data.labels[i]));
    const labels = entries.map((number) => data.labels[number]);
    const known = [...range(data.classes.length)].filter((c) => !held.includes(c));
    const corrections = [0, 0];
    let systems;

    function measure(step) {
      return systems.map(({ answer }, s) => {
        const right = truth.map((label, i) => i >= n && answer(i) === label);
        const share = (from, to) => right.slice(from, to).filter(Boolean).length / (to - from);
        const original = share(n + novel, rows.length);
        return { step, corrections: corrections[s], novel: share(n, n + novel), original };
      });
    }
    // Leads of the proposed system: of novel test rows that can be right, of original ones.
    function leads() {
      const found = [[], []];
      for (let i = n; i < rows.length; i++) {
        const { fresh, old, lead } = systems[1].lead(i);
        const kind = i < n + novel ? 0 : 1;
        if ((kind ? old : fresh) === truth[i]) found[kind].push(lead);
      }
      return found;
    }
    // Correct systems by one row; queries from `from` on are asked again.
    function teach(taught, query, label, from) {
      const due = taught.flatMap(({ correct }) => correct(query, label));
      const vectors = Float64Array.from(due.flatMap(([vector]) => [...vector]));
      const P = products(X, queries.subarray(from), vectors, due.length);
      P.forEach((value, at) => due[at % due.length][1](from + Math.floor(at / due.length), value));
    }
    function* steps() {
      yield { share: 0 };
      const best = classCosines(queries, known);
      const memory = substrate(queries, [...entries], [...labels]);
      systems = [memory, proposed(queries, entries, labels, known, best, reader)];
      yield* memory.search(best, known);
      yield { point: measure(0), items: [] };
      for (let i = 0, items = []; i < n; i++) {
        const answers = systems.map(({ answer }) => answer(i));
        const corrected = answers.map((answer) => answer !== truth[i] && coins[i] === "1");
        items.push({ truth: truth[i], answers, corrected, ...memory.near(i) });
        corrected.forEach((due, s) => (corrections[s] += due));
        teach(systems.filter((_, s) => corrected[s]), i, truth[i], i + 1);
        if ((i + 1) % 5 && i + 1 < n) continue;
        const point = (i + 1) % 25 && i + 1 < n ? null : measure(i + 1);
        yield { items, point, leads: i + 1 < n ? null : leads() };
        items = [];
      }
    }
    // What the systems say to a typed text, by its vector.
    function ask(vector) {
      const grown = new Float64Array(X.length + D);
      grown.set(X);
      grown.set(widen(Float16Array.from(vector)), X.length);
      queries[typed] = X.length / D;
      X = grown;
      systems.forEach(({ place }) => place(typed));
      const [memory, ledger] = systems;
      return {
        answers: systems.map(({ answer }) => answer(typed)),
        top: ledger.top(typed),
        ...memory.near(typed),
      };
    }
    // Both systems learn the class of the text that was asked last.
    function correct(label, step) {
      teach(systems, typed, label, 0);
      corrections.forEach((_, s) => (corrections[s] += 1));
      return { point: measure(step), leads: leads() };
    }
    return { steps: steps(), ask, correct };
  }
  let run;
  const read = (Type, base64) => new Type(Uint8Array.fromBase64(base64).buffer);
  function load(given) {
    data = given;
    C = data.classes.length + SPARE;
    nearest = read(Uint8Array, data.nearest);
    X = widen(read(Float16Array, data.embeddings));
  }
  function begin(key, coins) {
    const reader = data.readers[key.split("/").slice(0, 2).join("/")];
    const head = Float64Array.from(read(Float32Array, reader.head));
    run = stream(data.scenarios[key], coins, { ...reader, head });
  }
  self.onmessage = ({ data: { id, given, scenario, coins, vector, label, step } }) => {
    if (given) load(given);
    if (scenario) begin(scenario, coins);
    if (vector) self.postMessage({ reply: run.ask(vector) });
    else if (label !== undefined) self.postMessage({ reply: run.correct(label, step) });
    else if (id) self.postMessage({ id, ...run.steps.next().value });
  };
}
