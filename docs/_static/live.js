// The stream of Banking77 in the reader's browser. `engine` is the benchmark as docs/protocol.md
// defines it, in a worker; `page` shows it. live-data.js, made by paper/live.py, has the data.
"use strict";

function engine() {
  const D = 384; // values of a row
  const K = 5; // neighbours that may vote
  const MARGIN = 0.05; // cosine distance from the best one within which they do
  const SHRINKAGE = 1e-4; // of slda
  const GRAIN = 2 ** 12; // coordinates along axes are whole numbers of this part
  const FIELD = 2 ** 26; // a product of two such rows stays below half of it
  const SLACK = 0.002; // more than whole numbers cost a product
  let data, X, axes; // X: unit rows (n, D), training rows first; axes (d, D): orthonormal rows
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

  // Products (m, n) of the named rows of A and the n rows of B, four by two: few values are read.
  function products(A, rows, B, n, L = D) {
    const P = new Float64Array(rows.length * n);
    const last = rows.length - 1;
    for (let i = 0; i <= last; i += 4) {
      const i1 = Math.min(i + 1, last), i2 = Math.min(i + 2, last), i3 = Math.min(i + 3, last);
      const a0 = rows[i] * L, a1 = rows[i1] * L, a2 = rows[i2] * L, a3 = rows[i3] * L;
      for (let j = 0; j < (A === B ? i + 4 : n); j += 2) { // of a square, up to the diagonal
        const j1 = Math.min(j + 1, n - 1);
        const b0 = j * L, b1 = j1 * L;
        let s0 = 0, s1 = 0, s2 = 0, s3 = 0; // with row j
        let t0 = 0, t1 = 0, t2 = 0, t3 = 0; // with row j1
        for (let k = 0; k < L; k++) {
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

  // Counts and means of classes, and the scatter S of rows around them.
  function summarise(rows, labels) {
    const n = rows.length;
    const counts = new Float64Array(data.classes.length);
    const means = new Float64Array(counts.length * D);
    labels.forEach((label) => (counts[label] += 1));
    labels.forEach((label, i) => add(row(means, label), 1 / counts[label], row(X, rows[i])));
    const centred = new Float64Array(D * n); // rows in columns
    for (let at = 0; at < D * n; at++) {
      const k = Math.floor(at / n);
      centred[at] = X[rows[at % n] * D + k] - means[labels[at % n] * D + k];
    }
    const S = products(centred, range(D), centred, D, n); // half of it
    S.forEach((value, at) => (S[(at % D) * D + Math.floor(at / D)] ||= value));
    return { counts, means, S };
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

  // The system `substrate`: entries, and the nearest K of each query, best and newest first.
  function substrate(queries, entries, labels) {
    const n = entries.length;
    const cosines = new Float64Array(queries.length * K).fill(-Infinity);
    const slots = new Int32Array(queries.length * K);
    function insert(query, cosine, slot) {
      let at = query * K + K - 1;
      if (cosine < cosines[at]) return;
      for (; at > query * K && cosine >= cosines[at - 1]; at--) {
        cosines[at] = cosines[at - 1];
        slots[at] = slots[at - 1];
      }
      cosines[at] = cosine;
      slots[at] = slot;
    }
    // With P along axes and r the length of the rest, q . x <= Pq . Px + rq rx (Cauchy, Schwarz).
    // P are whole numbers; those of two entries fit one float64, and are multiplied at once.
    function* search() {
      const [d, m, unit] = [axes.length / D, Math.ceil(n / 2), 1 / GRAIN ** 2];
      const [[E, restsE], [Q, restsQ]] = [entries, queries].map((rows) => {
        const P = products(X, rows, axes, d);
        const rests = Float64Array.from(rows, (_, i) => 1 - dot(row(P, i, d), row(P, i, d)));
        return [P.map((value) => Math.round(GRAIN * value)), rests.map(Math.sqrt)];
      });
      const packed = E.slice(0, m * d); // entries i and m + i
      add(packed.subarray(0, (n - m) * d), FIELD, E.subarray(m * d));
      const rough = new Float64Array(2 * m);
      for (let first = 0; first < queries.length; first += 4) {
        if (first % 128 === 0) yield { share: first / queries.length };
        const four = range(Math.min(4, queries.length - first)).map((more) => first + more);
        const P = products(Q, four, packed, m, d);
        four.forEach((query, f) => {
          for (let i = 0, at = f * m; i < m; i++, at++) {
            rough[m + i] = unit * Math.round(P[at] * (1 / FIELD)); // faster than divisions
            rough[i] = unit * P[at] - FIELD * rough[m + i];
          }
          find(query, rough, restsE, restsQ[query]);
        });
      }
    }
    function find(query, rough, restsE, restQ) {
      const cosine = (slot) => dot(row(X, queries[query]), row(X, entries[slot]));
      for (let slot = 0; slot < n; slot++) insert(query, rough[slot], slot);
      let least = Math.min(...Array.from(row(slots, query, K), cosine)); // of the K best, or less
      row(cosines, query, K).fill(-Infinity);
      for (let slot = 0; slot < n; slot++) {
        if (rough[slot] + restQ * restsE[slot] + SLACK < least) continue;
        insert(query, cosine(slot), slot);
        least = Math.max(least, cosines[query * K + K - 1]);
      }
    }
    const near = (query) => [...row(slots, query, K)].map((slot, i) => {
      const cosine = cosines[query * K + i];
      const votes = cosine >= cosines[query * K] - MARGIN;
      return { cosine, votes, label: labels[slot], row: entries[slot] };
    });
    // Most votes; of equal ones the class met first, nearest and newest.
    function answer(query) {
      const votes = near(query).filter((entry) => entry.votes).map((entry) => entry.label);
      const count = (label) => votes.filter((other) => other === label).length;
      return votes.reduce((best, label) => (count(label) > count(best) ? label : best));
    }
    function correct(query, label) {
      const slot = entries.push(queries[query]) - 1;
      labels.push(label);
      return [row(X, queries[query]), (later, cosine) => insert(later, cosine, slot)];
    }
    return { search, answer, correct, near };
  }

  // The systems `slda`: n (x . w - m . w / 2) with w = A^-1 m, A = (1 - s) S + r I, and `ncm`: the
  // same with A = I, that does not adapt, and n = 1. (A is inverted once. It would be again with
  // half as many rows more than at first, which no stream of the page has.)
  function discriminants(queries, start, adapts) {
    const [means, counts] = [start.means.slice(), start.counts.slice()];
    const C = counts.length;
    let n = adapts ? counts.reduce((sum, count) => sum + count) : 1;
    let A = start.S.map((value) => (adapts ? (1 - SHRINKAGE) * value : 0));
    for (let j = 0; j < D; j++) A[j * D + j] += adapts ? SHRINKAGE * n : 1;
    if (adapts) A = inverse(A); // from here on
    const W = products(means, range(C), A, D);
    const P = products(X, queries, W, C); // x . w
    const offset = (_, c) => dot(row(means, c), row(W, c)) / -2;
    let offsets = counts.map(offset);
    // v = x - m_y, u = A^-1 v, a = (1 - s) k / (k + 1), g = 1 + a v . u, with k rows of y before;
    // A^-1 -= a / g u u^T, W += move u^T, move = (e_y / (k + 1) - a M u) / g, M the means
    function correct(query, y) {
      const k = counts[y];
      const v = row(means, y).map((m, j) => X[queries[query] * D + j] - m);
      const u = products(A, range(D), v, 1);
      const a = adapts ? ((1 - SHRINKAGE) * k) / (k + 1) : 0;
      const g = 1 + a * dot(v, u);
      const move = products(means, range(C), u, 1).map((along) => (-a / g) * along);
      move[y] += 1 / (g * (k + 1));
      for (let j = 0; a && j < D; j++) add(row(A, j), (-a / g) * u[j], u);
      for (let c = 0; c < C; c++) add(row(W, c), move[c], u);
      add(row(means, y), 1 / (k + 1), v);
      counts[y] += 1;
      n += adapts ? 1 : 0;
      offsets = counts.map(offset);
      return [u, (later, along) => add(row(P, later, C), along, move)];
    }
    // The best class met; scores that are equal to 9 decimals are equal, and the lowest id wins.
    function answer(query) {
      let found = -1, most = -Infinity;
      for (let c = 0; c < C; c++) {
        const score = (P[query * C + c] + offsets[c]) * n * 1e9;
        if (counts[c] === 0 || score < most + 0.5) continue;
        most = Math.round(score);
        found = c;
      }
      return found;
    }
    return { answer, correct };
  }

  // The benchmark: predict, correct mistakes as the policy says, test at every 25th item.
  function* stream({ held, rows, n, novel }, coins) {
    const queries = Int32Array.from(rows); // n of the stream, then novel test rows, then original
    const truth = rows.map((number) => data.labels[number]);
    const entries = [...range(data.train)].filter((i) => !held.includes(data.labels[i]));
    const labels = entries.map((number) => data.labels[number]);
    yield { share: 0 };
    const start = summarise(entries, labels);
    const memory = substrate(queries, entries, labels);
    const [ncm, slda] = [false, true].map((adapts) => discriminants(queries, start, adapts));
    const systems = [memory, ncm, slda];
    yield* memory.search();
    const corrections = [0, 0, 0];
    const measure = (step) => systems.map(({ answer }, s) => {
      const right = truth.map((label, i) => i >= n && answer(i) === label);
      const share = (from, to) => right.slice(from, to).filter(Boolean).length / (to - from);
      const known = share(n + novel, rows.length);
      return { step, corrections: corrections[s], novel: share(n, n + novel), original: known };
    });
    yield { point: measure(0), items: [] };
    for (let i = 0, items = []; i < n; i++) {
      const answers = systems.map(({ answer }) => answer(i));
      const corrected = answers.map((answer) => answer !== truth[i] && coins[i] === "1");
      items.push({ truth: truth[i], answers, corrected, near: memory.near(i) });
      corrected.forEach((due, s) => (corrections[s] += due));
      const due = systems.filter((_, s) => corrected[s]).map(({ correct }) => correct(i, truth[i]));
      const vectors = Float64Array.from(due.flatMap(([vector]) => [...vector]));
      const P = products(X, queries.subarray(i + 1), vectors, due.length);
      P.forEach((value, at) => due[at % due.length][1](i + 1 + Math.floor(at / due.length), value));
      if ((i + 1) % 5 && i + 1 < n) continue;
      yield { items, point: (i + 1) % 25 && i + 1 < n ? null : measure(i + 1) };
      items = [];
    }
  }
  let run;
  const read = (Type, base64) => new Type(Uint8Array.fromBase64(base64).buffer);
  self.onmessage = ({ data: { id, load, scenario, coins } }) => {
    if (load) [data, axes] = [load, Float64Array.from(read(Float32Array, load.axes))];
    if (load) X = widen(read(Float16Array, load.embeddings));
    if (scenario) run = stream(data.scenarios[scenario], coins);
    if (id) self.postMessage({ id, ...run.next().value });
  };
}

function page(live) {
  const SYSTEMS = ["substrate", "ncm", "slda"];
  const source = document.currentScript.src.replace("live.js", "live-data.js");
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const one = (selector) => live.querySelector(selector);
  const [form, button, said, cells, query] = "form button output .cells .query".split(" ").map(one);
  let worker, loading, run = { ended: true };
  async function load() { // by a script: from a folder, a page cannot fetch
    said.value = "Loading 15 MB …";
    const script = Object.assign(document.createElement("script"), { src: source });
    script.onerror = () => (said.value = "live-data.js is missing: build the site again.");
    document.head.append(script);
    await new Promise((loaded) => (script.onload = loaded));
    worker = new Worker(URL.createObjectURL(new Blob([`(${engine})()`])));
    worker.onerror = ({ message }) => (said.value = `A newer browser is needed (${message}).`);
    worker.onmessage = take;
    worker.postMessage({ load: ocrr });
  }

  async function begin() {
    const { seed, held, policy, tests } = Object.fromEntries(new FormData(form));
    const key = `${seed}/${held}/${tests}`;
    await (loading ??= load());
    live.run = run = { ...ocrr.scenarios[key], id: Date.now(), points: [], items: [], shown: 0 };
    [cells.innerHTML, one(".truth").textContent] = ["<i></i>".repeat(run.n), ""];
    ask({ scenario: key, coins: ocrr.coins[policy][seed] });
  }

  function ask(settings) {
    if (run.asked || run.paused || run.ended) return;
    run.asked = true;
    worker.postMessage({ id: run.id, ...settings });
  }

  function take({ data: { id, share = 1, point, items = [] } }) {
    if (id !== run.id) return; // of a run that was left
    run.asked = false;
    run.items.push(...items);
    if (point) run.points.push(point);
    run.ended = run.items.length === run.n;
    one("progress").value = (share + run.items.length / run.n) / 2;
    if (!calm || run.ended) requestAnimationFrame(draw); // with reduced motion, at the end only
    ask();
  }
  const verdict = ({ answers, corrected, truth }, s) => (
    answers[s] === truth ? "right" : corrected[s] ? "corrected" : "wrong");

  function draw() {
    const last = run.points.at(-1);
    for (const svg of last ? live.querySelectorAll("[data-axis]") : []) {
      const { axis, lowest } = svg.dataset;
      const height = (value) => (150 * (1 - value)) / (1 - lowest);
      SYSTEMS.forEach((name, s) => {
        const points = run.points.map((p) => [(300 * p[s].step) / run.n, height(p[s][axis])]);
        svg.querySelector(`.${name}`).setAttribute("points", points.join(" "));
        one(`tr.${name} .${axis}`).textContent = last[s][axis].toFixed(3);
        one(`tr.${name} .corrections`).textContent = last[s].corrections;
      });
    }
    for (; run.shown < run.items.length; run.shown++) {
      cells.children[run.shown].className = verdict(run.items[run.shown], 0);
    }
    query.max = run.shown;
    const state = run.ended ? "Done" : run.paused ? "Paused" : "Running";
    button.textContent = { Done: "Run", Paused: "Go on", Running: "Pause" }[state];
    if (!said.value.startsWith(state)) said.value = `${state}: a stream of ${run.n} queries.`;
  }

  // A query of the stream: its answers, and which neighbours voted.
  function show(place) {
    const item = run.items[place];
    if (!item) return;
    const name = (label) => ocrr.classes[label];
    const answers = SYSTEMS.map((s, i) => [s, name(item.answers[i]), verdict(item, i)]);
    const near = item.near.map(({ cosine, votes, label, row }) => {
      const from = run.rows.indexOf(row) + 1;
      const kind = from ? `correction of query ${from}` : "known from the start";
      return [name(label), cosine.toFixed(3), votes ? "yes" : "too far", kind];
    });
    const body = (rows) => rows.map((row) => `<tr><td>${row.join("<td>")}`).join("");
    [one(".answers").innerHTML, one(".near").innerHTML] = [answers, near].map(body);
    one(".truth").textContent = `Query ${place + 1}, of class ${name(item.truth)}`;
    cells.querySelector(".chosen")?.classList.remove("chosen");
    cells.children[place].classList.add("chosen");
    query.value = place + 1;
  }
  form.onsubmit = (event) => {
    event.preventDefault();
    if (run.ended) return begin();
    run.paused = !run.paused;
    draw();
    ask();
  };
  form.onchange = () => { Object.assign(run, { id: 0, ended: true }); button.textContent = "Run"; };
  query.oninput = () => show(query.value - 1);
  cells.onclick = (event) => show([...cells.children].indexOf(event.target));
}
page(document.getElementById("live"));
